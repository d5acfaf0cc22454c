"""A cell is one number of heads at one length: the member that stands for it, and how the others did.

Selection looks at `validation_error`, display at `test_error`: a number that chose its own winner
would flatter it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from headcount.errors import InvalidInput
from headcount.results.settings import settings

CELL = ["heads", "length"]
COLUMNS = [
    *("trial", "task", "dimension", "length", "heads", "seed", "learning_rate"),
    *("validation_error", "test_error", "metric", "status", "device", "precision", "seconds", "versions"),
]


@dataclass(frozen=True)
class Section:
    """All members trained on one task of one dimension; the dimension of a user's own data is None.

    `settings` says what sets them apart from other sections of the same task: "hidden 16", or nothing.
    """

    task: str
    dimension: int | None
    settings: str
    metric: str
    members: pd.DataFrame

    @property
    def name(self) -> str:
        """The task and what is particular to the section, its dimension aside."""
        return f"{self.task} ({self.settings})" if self.settings else self.task

    @property
    def heads(self) -> list[int]:
        """Every number of heads that was tried, smallest first."""
        return sorted(int(heads) for heads in self.members["heads"].unique())

    @property
    def lengths(self) -> list[int]:
        """Every length that was tried, smallest first."""
        return sorted(int(length) for length in self.members["length"].unique())

    @property
    def below(self) -> list[int]:
        """The h < D: too few, as far as the theory can say."""
        return [heads for heads in self.heads if self.dimension is not None and heads < self.dimension]

    @property
    def enough(self) -> list[int]:
        """The h >= D, and every h where D is not known."""
        return self.heads[len(self.below) :]


def sections(frame: pd.DataFrame) -> Iterator[Section]:
    """One section per task, dimension and settings, in the order in which the frame names them.

    Members of one section differ only in heads, length, seed and learning rate: all that may stand for
    one another in a cell.
    """
    _check(frame)
    keyed = frame.assign(_settings=settings(frame))
    for (*_, apart), group in keyed.groupby(["task", "dimension", "_settings"], sort=False, dropna=False):
        members = group.drop(columns="_settings")
        measured = np.isfinite(members["validation_error"]) & np.isfinite(members["test_error"])
        failed = (members["status"] == "diverged") | ~measured
        first = members.iloc[0]
        yield Section(
            task=str(first["task"]),
            dimension=None
            if pd.isna(first["dimension"]) or first["dimension"] < 1
            else int(first["dimension"]),
            settings=str(apart),
            metric=str(first["metric"]),
            members=members.assign(failed=failed).reset_index(drop=True),
        )


def only_section(frame: pd.DataFrame) -> Section:
    """The section of a frame that holds one task of one dimension."""
    found = list(sections(frame))
    if len(found) > 1:
        names = "; ".join(f"{section.name} with D = {section.dimension}" for section in found)
        raise InvalidInput(f"a chart shows one task of one dimension, but the frame holds {names}")
    return found[0]


def selected_members(section: Section) -> pd.DataFrame:
    """The member with the lowest validation error of every cell in which at least one did not fail."""
    finished = section.members[~section.members["failed"]]
    # The trial's hash settles ties, so the same frame in another order gives the same page.
    ranked = finished.sort_values(["validation_error", "trial"])
    return ranked.groupby(CELL).head(1).sort_values(CELL).reset_index(drop=True)


def cell_table(section: Section) -> pd.DataFrame:
    """Every heads × length: `best` and `median` test error, `failed` and `members` counted.

    A cell whose members all failed has no error (NaN); a cell that was never trained has no members.
    """
    by_cell = section.members.groupby(CELL)
    finished = section.members[~section.members["failed"]].groupby(CELL)
    table = pd.DataFrame(
        {
            "best": selected_members(section).set_index(CELL)["test_error"],
            "median": finished["test_error"].median(),
            "failed": by_cell["failed"].sum(),
            "members": by_cell.size(),
        }
    )
    grid = pd.MultiIndex.from_product([section.heads, section.lengths], names=CELL)
    table = table.reindex(grid).reset_index()
    return table.fillna({"failed": 0, "members": 0}).astype({"failed": int, "members": int})


def _check(frame: pd.DataFrame) -> None:
    missing = [column for column in COLUMNS if column not in frame.columns]
    if missing:
        raise InvalidInput(f"the results frame lacks {', '.join(missing)}; it needs {', '.join(COLUMNS)}")
    if frame.empty:
        raise InvalidInput("the results frame has no rows; a report needs at least one finished trial")
    negative = frame.loc[frame["test_error"] < 0, "test_error"]
    if not negative.empty:
        raise InvalidInput(f"test_error is {negative.iloc[0]}; an error is zero or more")
