"""Where the error falls: the head count at which a task becomes easy."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from headcount.results.cells import Section, sections, selected_members
from headcount.results.numbers import fold

CLEAR_FALL = 10.0


@dataclass(frozen=True)
class Transition:
    """The largest fall of the error between neighbouring head counts of a grid.

    - `below`, `heads`: the head counts before and after the fall.
    - `fall`: how many times smaller the error is after it, the geometric mean over lengths.
    - `task`, `dimension`: the section it was found in, and its D where that is known.
    """

    task: str
    dimension: int | None
    below: int
    heads: int
    fall: float

    @property
    def clear(self) -> bool:
        """Whether the fall is large enough to be called a transition."""
        return self.fall >= CLEAR_FALL

    def __str__(self) -> str:
        next_door = self.heads == self.below + 1
        place = f"at {_count(self.heads)}" if next_door else f"between {self.below} and {_count(self.heads)}"
        if not self.clear:
            return (
                f"{self.task}: no transition; the largest fall of the error is {fold(self.fall, 1)}, {place}."
            )
        found = f"D = {self.heads}" if next_door else f"{self.below} < D ≤ {self.heads}"
        return f"{self.task}: the error falls {fold(self.fall, 1)} {place}: {found}{self._agreement()}."

    def _agreement(self) -> str:
        if self.dimension is None:
            return ""
        agrees = self.below < self.dimension <= self.heads
        return ", as it was built" if agrees else f", but it was built with D = {self.dimension}"


def transitions(frame: pd.DataFrame) -> list[Transition]:
    """The largest fall in every section of the frame where head counts can be compared."""
    found = (_largest_fall(section) for section in sections(frame))
    return [transition for transition in found if transition is not None]


def _largest_fall(section: Section) -> Transition | None:
    best = selected_members(section)
    errors = best.pivot(index="heads", columns="length", values="test_error").dropna(axis=1)
    if errors.empty or len(errors) < 2:
        return None
    # An error of exactly 0 would make any fall infinite: in float32 it equals this.
    curve = np.log(np.maximum(errors.to_numpy(), np.finfo(np.float32).eps ** 2)).mean(axis=1)
    falls = curve[:-1] - curve[1:]
    place = int(np.argmax(falls))
    heads = [int(count) for count in errors.index]
    return Transition(
        section.name, section.dimension, heads[place], heads[place + 1], float(np.exp(falls[place]))
    )


def _count(heads: int) -> str:
    return "1 head" if heads == 1 else f"{heads} heads"
