"""From all heads down, as far as the loss stays within a tolerance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from headcount.trained.rise import Rise

Counts = tuple[int, ...]  # of every layer
STRIDES = (8, 4, 2, 1)  # before the guess
PARTS = 24  # of a long way down, each a stride
RESAMPLES = 500
Rises = Float[np.ndarray, " sample"]


@dataclass(frozen=True, eq=False)
class Step:
    """A model with fewer heads, judged.

    - `kept`: of every layer, the heads that are left.
    - `guessed`: the mean rise on samples of the selection, which none of the fits saw.
    - `judged`: the rise on samples of the judge; `rises`: of each of them.
    - `reported`: the rise on samples that decide nothing.
    """

    kept: tuple[tuple[int, ...], ...]
    guessed: float
    effect: float
    judged: Rise
    reported: Rise
    rises: Rises = field(repr=False)

    @property
    def counts(self) -> Counts:
        """Heads of every layer."""
        return tuple(map(len, self.kept))

    @property
    def heads(self) -> int:
        """Of all layers together."""
        return sum(self.counts)


@dataclass(frozen=True, eq=False)
class Descent:
    """A way down and how far it was followed.

    - `steps`: those that were tried, by their place on the way; 0 is the whole model.
    - `place`: the last whose loss stays within the tolerance, with all before it that were asked.
    - `failed`: the first that does not; None where the way ended.
    """

    way: Sequence[Counts]
    steps: dict[int, Step]
    place: int
    failed: int | None
    tolerance: float

    @property
    def found(self) -> Step:
        """The one with the fewest heads that stays within the tolerance."""
        return self.steps[self.place]

    @property
    def too_noisy(self) -> bool:
        """Whether no head could go although the rise may be none: then the noise is what failed."""
        if self.failed is None or self.place:
            return False
        return self.steps[self.failed].judged.low <= 0

    def places_within(self, spread: float, *, seed: int = 0) -> tuple[int, int]:
        """The first and last place where the way may leave the tolerance, in 95% of draws.

        Samples are drawn anew, and every mean is off by what another selection would change (`spread`);
        between places that were tried, the rise is taken to be a line.
        """
        random = np.random.default_rng(seed)
        places = sorted(self.steps)
        table = np.stack([self.steps[place].rises for place in places])
        drawn = random.integers(table.shape[1], size=(RESAMPLES, table.shape[1]))
        means = np.stack([row[drawn].mean(axis=1) for row in table], axis=1)
        means[:, 1:] += spread * random.normal(size=(RESAMPLES, 1))  # the whole model is never off
        means = np.maximum.accumulate(means, axis=1)
        every = np.arange(places[-1] + 1)
        left = [int((np.interp(every, places, row) <= self.tolerance).sum()) - 1 for row in means]
        low, high = np.quantile(np.maximum(left, 0), [0.025, 0.975], method="nearest")
        return int(low), int(high)


def descend(
    way: Sequence[Counts], whole: Step, tried: Callable[[Counts], Step], *, tolerance: float
) -> Descent:
    """Guess on samples of the selection where the tolerance is met, then ask the judge from well above it.

    The judge is asked about places in an order that does not depend on its own samples, downwards, and the
    first that fails ends it. So a place that is too low is only accepted if the first such place is, and
    that happens in 5% of cases, however many are asked.
    """
    steps = {0: whole}

    def at(place: int) -> Step:
        if place not in steps:
            steps[place] = tried(way[place])
        return steps[place]

    last = len(way) - 1
    low, high = 0, last + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle).guessed <= tolerance else (low, middle)
    stride = max(1, len(way) // PARTS)
    before = [low - stride * times for times in STRIDES]
    order = [place for place in before if place > 0] + list(range(max(low - stride + 1, 1), last + 1))
    passed = 0
    for place in order:
        if at(place).judged.high > tolerance:
            return Descent(way, steps, passed, place, tolerance)
        passed = place
    return Descent(way, steps, passed, None, tolerance)
