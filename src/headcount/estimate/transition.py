"""Where the error falls: the head count at which a task becomes easy."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

CLEAR_FALL = 10.0


@dataclass(frozen=True)
class Transition:
    """The largest fall of the error between neighbouring head counts of a grid.

    - `below`, `heads`: the head counts before and after the fall.
    - `fall`: how many times smaller the error is after it, the geometric mean over lengths.
    - `dimension`: the D of the task, where it is known.
    """

    task: str
    dimension: int
    below: int
    heads: int
    fall: float

    @property
    def clear(self) -> bool:
        """Whether the fall is large enough to be called a transition."""
        return self.fall >= CLEAR_FALL

    def __str__(self) -> str:
        known = f"{self.task} with D = {self.dimension}"
        place = f"at {_count(self.heads)}"
        if self.heads > self.below + 1:
            place = f"between {self.below} and {_count(self.heads)}"
        if not self.clear:
            return f"{known}: no transition; the largest fall of the error is {self.fall:.1f}-fold, {place}."
        found = (
            f"D = {self.heads}" if self.heads == self.below + 1 else f"D in {self.below + 1}..{self.heads}"
        )
        return f"{known}: the error falls {_rounded(self.fall)}-fold {place}: {found}."


def best_members(frame: pd.DataFrame) -> pd.DataFrame:
    """For every task, D, head count and length the member with the least validation error.

    Selection is on validation data; the error to report is `test_error`, which no choice has seen.
    """
    usable = frame[np.isfinite(frame["validation_error"])]
    cells = ["task", "dimension", "heads", "length"]
    return usable.sort_values("validation_error").groupby(cells, as_index=False).first()


def transitions(frame: pd.DataFrame) -> list[Transition]:
    """The largest fall of each task and dimension for which two head counts can be compared."""
    groups = best_members(frame).groupby(["task", "dimension"])
    found = (_largest_fall(cells) for _, cells in groups)
    return [transition for transition in found if transition is not None]


def _largest_fall(cells: pd.DataFrame) -> Transition | None:
    task, dimension = str(cells["task"].iloc[0]), int(cells["dimension"].iloc[0])
    errors = cells.pivot(index="heads", columns="length", values="test_error").dropna(axis=1)
    if errors.empty or len(errors) < 2:
        return None
    # An error of exactly 0 would make any fall infinite: the smallest float32 step stands in for it.
    curve = np.log(np.maximum(errors.to_numpy(), np.finfo(np.float32).eps ** 2)).mean(axis=1)
    falls = curve[:-1] - curve[1:]
    place = int(np.argmax(falls))
    heads = errors.index.to_list()
    return Transition(task, dimension, heads[place], heads[place + 1], float(np.exp(falls[place])))


def _count(heads: int) -> str:
    return "1 head" if heads == 1 else f"{heads} heads"


def _rounded(fall: float) -> str:
    """Two significant digits: a ratio of errors is not known better."""
    digits = 1 - int(np.floor(np.log10(fall)))
    return f"{round(fall, digits):,.0f}"
