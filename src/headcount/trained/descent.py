"""From all heads down, as far as the loss stays within a tolerance."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headcount.trained.plan import Kept
from headcount.trained.rise import PerSample, Rise

Counts = tuple[int, ...]  # of every layer
STRIDES = (8, 4, 2, 1)  # before the guess
PARTS = 24  # of a long way down, each a stride


@dataclass(frozen=True, eq=False)
class Step:
    """A model with fewer heads, judged.

    - `kept`: of every layer, the heads that are left.
    - `judged`: the rise on samples of the judge; `rises`: of each of them.
    """

    kept: Kept
    judged: Rise
    rises: PerSample = field(repr=False)

    @property
    def counts(self) -> Counts:
        """Heads of every layer."""
        return tuple(map(len, self.kept))

    @property
    def heads(self) -> int:
        """Of all layers together."""
        return sum(self.counts)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model with fewer heads that the judge has not seen yet.

    - `guessed`: the bound to expect of the judge, from the rises on samples of the selection that none of the
      fits saw; `effect`: the mean distance from the whole model on the same.
    - `judge`, `report`: called for its loss on the samples of the judge, and on those that decide nothing.
    """

    kept: Kept
    guessed: float
    effect: float
    judge: Callable[[], Step]
    report: Callable[[], Rise]


@dataclass(frozen=True, eq=False)
class Descent:
    """A way down and how far it was followed.

    - `steps`: those that were judged, by their place on the way; 0 is the whole model.
    - `effects`: of all that were built.
    - `place`: the last whose loss stays within the tolerance, with all before it that were asked.
    - `failed`: the first that does not; None where the way ended.
    - `reported`: the rise at `place` on samples that decide nothing.
    """

    way: Sequence[Counts]
    steps: Mapping[int, Step]
    effects: Mapping[int, float]
    place: int
    failed: int | None
    reported: Rise
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


def descend(
    way: Sequence[Counts],
    built: Callable[[Counts], Candidate],
    *,
    tolerance: float,
    to_the_end: bool = False,
) -> Descent:
    """Guess on samples of the selection where the judge's bound meets the tolerance, and ask from above that.

    The judge is asked about places in an order that does not depend on its own samples, downwards, and the
    first that fails ends it. So a place that is too low is only accepted if the first such place is, and
    that happens in 5% of cases, however many are asked. `to_the_end`: measure the effect of the last place
    in any case.
    """
    candidates: dict[int, Candidate] = {}

    def at(place: int) -> Candidate:
        if place not in candidates:
            candidates[place] = built(way[place])
        return candidates[place]

    steps = {0: at(0).judge()}
    low, high = 0, len(way)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle).guessed <= tolerance else (low, middle)
    passed, failed = 0, None
    for place in _asked(low, len(way)):
        steps[place] = at(place).judge()
        if steps[place].judged.high > tolerance:
            failed = place
            break
        passed = place
    reported = at(passed).report()
    if to_the_end:
        at(len(way) - 1)
    effects = {place: candidate.effect for place, candidate in sorted(candidates.items())}
    return Descent(way, steps, effects, passed, failed, reported, tolerance)


def _asked(guess: int, length: int) -> list[int]:
    """Places for the judge, in order: in long strides to just before the guess, then one after the other.

    >>> _asked(9, 13)
    [1, 5, 7, 8, 9, 10, 11, 12]
    """
    stride = max(1, length // PARTS)
    before = [guess - stride * times for times in STRIDES]
    return [place for place in before if place > 0] + list(range(max(guess - stride + 1, 1), length))
