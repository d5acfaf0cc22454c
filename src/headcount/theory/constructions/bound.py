"""How far a construction can be from its target: a proven bound, or an estimate that is none."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

from headcount.theory.constructions.shallow import OutOfReach, rounded_up

ROUNDING = "rounding in float64"


class Found(Protocol):
    """The largest error that a search found, and at how many sequences it looked."""

    @property
    def error(self) -> float:
        """The largest error."""

    @property
    def points(self) -> int:
        """How many sequences."""


@dataclass(frozen=True)
class Bound:
    """Proven: nowhere on [0,1]^(T×d) is the computed model further from the target than `total`."""

    parts: Mapping[str, float]

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(self.parts.values())

    @property
    def proven(self) -> bool:
        """True."""
        return True

    def including(self, found: Found) -> Self:
        """A search adds nothing to a proof."""
        return self

    def __str__(self) -> str:
        return f"{self.total:.3g}, proven"

    def to_json(self) -> dict[str, Any]:
        """`bound` holds the number, `estimate` none."""
        return {"proven": True, "bound": self.total, "estimate": None, "parts": dict(self.parts)}


@dataclass(frozen=True)
class Estimate:
    """Bound not proven: networks or slopes were measured on `points` points, and between them is no proof.

    - `parts`: what the error would be made of if nothing was missed.
    - `searched`: the largest error of the whole model that a search found; 0 before one was made.
    """

    parts: Mapping[str, float]
    points: int
    searched: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts, or what a search found where that is more."""
        return max(sum(self.parts.values()), self.searched)

    @property
    def proven(self) -> bool:
        """False."""
        return False

    def including(self, found: Found) -> Self:
        """The estimate with what a search found, and its points."""
        return replace(self, points=self.points + found.points, searched=max(self.searched, found.error))

    def __str__(self) -> str:
        return f"{self.total:.3g}, bound not proven: measured on {self.points:,} points"

    def to_json(self) -> dict[str, Any]:
        """`estimate` holds the number, `bound` none."""
        return {
            "proven": False,
            "bound": None,
            "estimate": self.total,
            "parts": dict(self.parts),
            "measured_points": self.points,
        }


def certified(parts: Mapping[str, float], *, points: int) -> Bound | Estimate:
    """A bound where nothing was measured, and otherwise an estimate.

    >>> certified({"network of F_0": 0.1}, points=0)
    Bound(parts={'network of F_0': 0.1})
    >>> print(certified({"network of F_0": 0.1}, points=4096))
    0.1, bound not proven: measured on 4,096 points
    """
    return Estimate(parts, points) if points else Bound(parts)


class Certified(Protocol):
    """Anything with a bound or an estimate."""

    @property
    def error(self) -> Bound | Estimate:
        """How far from its target it can be."""


Made = TypeVar("Made", bound=Certified)


def with_room_for_rounding(epsilon: float, make: Callable[[float], Made]) -> Made:
    """What `make` builds for epsilon; or, where rounding takes it beyond, an epsilon that leaves room."""
    made, possible = make(epsilon), epsilon
    while not _leaves_room(made.error, possible):
        possible = rounded_up(2 * possible)
        try:
            made = make(possible)
        except OutOfReach as error:
            possible = rounded_up(error.possible)
            made = make(possible)
    if possible > epsilon:
        raise OutOfReach("epsilon", epsilon, possible, "rounding in float64 takes more than that")
    return made


def _leaves_room(error: Bound | Estimate, epsilon: float) -> bool:
    """Rounding is refused where it alone leads beyond epsilon; a gate that is too weak is let through."""
    exact = sum(value for name, value in error.parts.items() if name != ROUNDING)
    return error.total < epsilon or exact >= epsilon
