"""The members of a head sweep side by side: their errors, and their distance from the reference members.

The *reference* is the good members among the largest head counts tried: models with more heads than needed,
if D is below those. Noisy labels and too few samples put one floor under the errors of all members. Their
outputs have no such floor: members with enough heads agree with each other, however noisy their training
data, and members with fewer do not. So there are two curves over h:

- `error`: of the member that validation selects, on test data;
- `distance`: of that member's outputs from the mean output of the reference. The few samples that are
  furthest apart are left out: members with enough heads are occasionally far off on a sample unlike their
  training data, members with fewer are off on most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import softmax
from scipy.stats import binomtest

from headcount.results.intervals import log_mean

WIDE = 3  # how many of the largest head counts the reference is taken from
GOOD = 1.5  # times the best validation error among them
FURTHEST = 0.02  # of the samples: left out of a distance
# Prior deviation of log distances within a reference, and how many members it counts for.
USUAL_DEVIATION, ITS_WEIGHT = 0.3, 3
Costs = Float[np.ndarray, " sample"]


@dataclass(frozen=True, eq=False)
class Tried:
    """A member as the estimate sees it.

    - `outputs`: for the test samples: standardised numbers, or scores of the labels.
    - `costs`: its loss on each test sample, relative to a model that ignores x: that one has 1 on average.
    - `right`: of labels, whether the one with the highest score is the true one.
    """

    heads: int
    validation_error: float
    outputs: Float[np.ndarray, "sample output"]
    costs: Costs
    right: Bool[np.ndarray, " sample"] | None = None


@dataclass(frozen=True)
class Point:
    """A value of a curve with its 95% interval over samples."""

    heads: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Curve:
    """All members, and whether their outputs are scores of labels."""

    tried: tuple[Tried, ...]
    labels: bool

    @cached_property
    def heads(self) -> list[int]:
        """The head counts with at least one member that did not diverge, in ascending order."""
        return sorted({member.heads for member in self._finished})

    def selected(self, heads: int) -> Tried:
        """The member with this many heads and the lowest validation error."""
        of_these = [member for member in self._finished if member.heads == heads]
        return min(of_these, key=lambda member: member.validation_error)

    @cached_property
    def _finished(self) -> tuple[Tried, ...]:
        """The members that did not diverge."""
        return tuple(
            member
            for member in self.tried
            if np.isfinite(member.validation_error) and np.isfinite(member.outputs).all()
        )

    @cached_property
    def reference(self) -> tuple[Tried, ...]:
        """The good members among the largest head counts."""
        most = self.heads[-1]
        widest = [count for count in self.heads if count > max(most - WIDE, most / 2)]
        wide = [member for member in self._finished if member.heads in widest]
        best = min(member.validation_error for member in wide)
        return tuple(member for member in wide if member.validation_error <= GOOD * best + 1e-4)

    @cached_property
    def reference_spread(self) -> tuple[float, float]:
        """The median log distance of the reference members from each other, and its standard deviation.

        The deviation of a few members is shrunk towards the usual one.
        """
        logs = np.log([max(typical(self._apart(member)).mean(), 1e-12) for member in self.reference])
        own, count = float(np.var(logs)), len(logs)
        pooled = ((count - 1) * own + ITS_WEIGHT * USUAL_DEVIATION**2) / (count - 1 + ITS_WEIGHT)
        return float(np.median(logs)), float(np.sqrt(pooled))

    def errors(self) -> list[Point]:
        """The error curve."""
        return [_point(heads, self.selected(heads).costs) for heads in self.heads]

    def typical_errors(self) -> list[Point]:
        """The error curve over the samples that a distance is taken over: all but the furthest few."""
        return [_point(heads, typical(self.selected(heads).costs)) for heads in self.heads]

    def accuracies(self) -> list[Point]:
        """The share of right labels, with Wilson's interval; empty for numbers."""
        rights = {heads: self.selected(heads).right for heads in self.heads}
        return [_share(heads, right) for heads, right in rights.items() if right is not None]

    def distances(self) -> list[Point]:
        """The distance curve: mean squares over the variance of the reference outputs.

        Scores of labels are compared as probabilities: far from a decision boundary scores vary freely.
        """
        return [_point(heads, typical(self._apart(self.selected(heads)))) for heads in self.heads]

    def _apart(self, member: Tried) -> Costs:
        """The distance of each output from the mean of the other reference members."""
        others = [other for other in self.reference if other is not member] or [self._next_best(member)]
        mean = np.mean([self._meant(other) for other in others], axis=0)
        apart: Costs = ((self._meant(member) - mean) ** 2).mean(axis=-1) / max(mean.var(axis=0).mean(), 1e-12)
        return apart

    def _next_best(self, member: Tried) -> Tried:
        """The best of all other members: the reference where only this one is good."""
        others = [other for other in self._finished if other is not member] or [member]
        return min(others, key=lambda other: other.validation_error)

    def _meant(self, member: Tried) -> Float[np.ndarray, "sample output"]:
        """Numbers as they are, scores as probabilities."""
        outputs = np.asarray(member.outputs, np.float64)
        if not self.labels:
            return outputs
        probabilities: np.ndarray = softmax(outputs, axis=-1)
        return probabilities


def typical(costs: Costs) -> Costs:
    """All but the few largest."""
    return np.sort(costs)[: len(costs) - int(FURTHEST * len(costs))]


def _point(heads: int, costs: Costs) -> Point:
    low, high = np.exp(log_mean(costs).interval)
    return Point(heads, float(costs.mean()), float(low), float(high))


def _share(heads: int, right: Bool[np.ndarray, " sample"]) -> Point:
    found = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
    return Point(heads, float(right.mean()), float(found.low), float(found.high))


def values(points: Sequence[Point]) -> Float[np.ndarray, " head_count"]:
    """The values of a curve."""
    return np.array([point.value for point in points])
