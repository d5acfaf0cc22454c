"""A cell is one number of heads at one length: the member that stands for it, and how the others did.

Selection looks at `validation_error`, display at `test_error`: a number that chose its own winner
would flatter it.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
import pandas as pd

from headcount.errors import InvalidInput

Settings = dict[str, Any]

# Axes of a chart, what members of one cell may differ in, and what the task decides.
INSIDE = {"heads", "length", "seed", "data_seed", "learning_rate", "token_dim", "output_dim"}
# Sizes that may follow from the number of heads, and then set nothing apart.
FOLLOWING = {"head_dim", "kv_heads"}
MAX_LABEL_LENGTH = 40


def settings(frame: pd.DataFrame) -> list[str]:
    """For every row, as text, the settings that are not the same in all rows of its task and dimension."""
    text = [""] * len(frame)
    if "spec" in frame:
        specs = frame["spec"].to_list()
        for places in frame.groupby(["task", "dimension"], dropna=False).indices.values():
            labels = _labels([json.loads(specs[place]) for place in places])
            for place, label in zip(places, labels, strict=True):
                text[place] = label
    return text


def _labels(trials: list[dict[str, Any]]) -> list[str]:
    heads = [trial.get("architecture", {}).get("heads") for trial in trials]
    rows = _with_widths([_flat(trial) for trial in trials], heads)
    names = dict.fromkeys(name for row in rows for name in row)
    varying = [name for name in names if _varies([row.get(name) for row in rows], heads, name in FOLLOWING)]
    return [", ".join(f"{name} {_short(row[name])}" for name in varying if name in row) for row in rows]


def _flat(trial: dict[str, Any]) -> Settings:
    task = trial.get("task", {})
    options = {f"task {name}": value for name, value in task.get("options", ()) if name != "dimension"}
    version = task.get("version", task.get("fingerprint"))  # of a user's task, now and before
    code = {} if version is None else {"task code": version}
    sizes = {**trial.get("architecture", {}), **trial.get("training", {})}
    return {**options, **code, **{name: value for name, value in sizes.items() if name not in INSIDE}}


def _with_widths(rows: list[Settings], heads: list[Any]) -> list[Settings]:
    """Grids of fixed widths E, kept apart by them: n = ceil(E / h) says nothing across head counts."""
    by_heads: dict[Any, set[int]] = {}
    for row, count in zip(rows, heads, strict=True):
        if count and row.get("head_dim"):
            by_heads.setdefault(count, set()).add(row["head_dim"])
    if len({frozenset(sizes) for sizes in by_heads.values()}) < 2:
        return rows
    fewest = min(by_heads)
    widths = {fewest * size for size in by_heads[fewest]}
    if any({ceil(width / count) for width in widths} != sizes for count, sizes in by_heads.items()):
        return rows
    named = []
    for row, count in zip(rows, heads, strict=True):
        width = min(width for width in widths if ceil(width / count) == row["head_dim"])
        named.append({**{name: value for name, value in row.items() if name != "head_dim"}, "width": width})
    return named


def _varies(values: Iterable[Any], heads: Iterable[Any], follows: bool) -> bool:
    found: dict[Any, set[str]] = {}
    for value, count in zip(values, heads, strict=True):
        found.setdefault(count if follows else None, set()).add(repr(value))
    return any(len(distinct) > 1 for distinct in found.values())


def _short(value: Any) -> str:
    """At most a line of it, and never the same for two values."""
    text = str(value)
    if len(text) <= MAX_LABEL_LENGTH:
        return text
    return f"{text[: MAX_LABEL_LENGTH - 10]}… ({hashlib.sha256(text.encode()).hexdigest()[:6]})"


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
