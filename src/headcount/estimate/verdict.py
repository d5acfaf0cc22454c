"""From the curves of a head sweep to a dimension, an interval and a recommendation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from headcount.estimate.collisions import Witness
from headcount.estimate.curve import Curve, Point, typical
from headcount.estimate.judge import FINAL, Judge
from headcount.version import __version__

Word = Literal["retrieval", "one head is enough", "cannot tell"]

LEARNT_NOTHING = 0.97  # an error above this is that of a member that knows nothing of x
CONFIDENCE = 0.95
WIDEST = 4  # an interval with more values than this tells nothing
POOLING = 0.8  # of the tokens: a target that moves with so many pools
NEAR = 2  # tokens that matter beyond D speak of D where they are no more than these; else the target pools
WIDER = 3  # times the gap of D heads: that of D − 1, where the two bear D out
GOOD_ENOUGH = 2e-3  # an error below this may fall as it likes
A_FALL, TWO_FALLS = 1.1, 1.35  # of the error, over one head count and over two, that goes on
NEAR_THE_BEST = 1.5  # times the lowest error: heads that are recommended come as near


@dataclass(frozen=True)
class Estimate:
    """How many things a task retrieves at once, and how many heads to give it.

    `dimension` is 1 where one head is enough, and None where this data and this training cannot tell.
    """

    dimension: int | None
    interval: tuple[int, int] | None
    verdict: Word
    recommended_heads: int | None
    probabilities: dict[int, float]
    errors: tuple[Point, ...]
    distances: tuple[Point, ...]
    reasons: tuple[str, ...]
    evidence: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    machine: str = ""

    @property
    def sentence(self) -> str:
        """The verdict as one says it."""
        if self.dimension is None or self.interval is None:
            return f"Cannot tell how many heads this task needs: {self.reasons[0]}"
        low, high = self.interval
        if self.dimension == 1:
            span = "" if high == 1 else f" (95% interval of D: {low} to {high})"
            return f"One head is enough{span}: {self.reasons[0]}"
        span = f"95% interval: {low} alone" if low == high else f"95% interval: {low} to {high}"
        return (
            f"This task retrieves D = {self.dimension} things at once ({span}): "
            f"give it {self.recommended_heads} heads."
        )

    def to_json(self) -> dict[str, Any]:
        """As it is written to estimate.json."""
        return {
            "sentence": self.sentence,
            "dimension": self.dimension,
            "interval": list(self.interval) if self.interval else None,
            "verdict": self.verdict,
            "recommended_heads": self.recommended_heads,
            "evidence": {
                "sweep": {
                    "probabilities": {str(heads): chance for heads, chance in self.probabilities.items()},
                    "distances": [asdict(point) for point in self.distances],
                },
                **self.evidence,
            },
            "curve": [
                {"heads": point.heads, "error": point.value, "interval": [point.low, point.high]}
                for point in self.errors
            ],
            "reasons": list(self.reasons),
            "seconds": round(self.seconds, 1),
            "machine": self.machine,
            "version": __version__,
        }


def decide(curve: Curve, *, judge: Judge = FINAL) -> Estimate:
    """The estimate that the curves bear out."""
    errors, distances = tuple(curve.errors()), tuple(curve.distances())
    if len(errors) < 2:
        reason = f"members of {len(errors)} head counts were trained without diverging, and two are needed."
        return Estimate(None, None, "cannot tell", None, {}, errors, distances, (reason,))
    lowest = min(point.value for point in errors)
    if min(point.high for point in errors) > LEARNT_NOTHING:
        reason = (
            f"no member learnt anything: the lowest error is {lowest:.2f}, and knowing nothing has 1. "
            "More data, longer training or other features may help."
        )
        return Estimate(None, None, "cannot tell", None, {}, errors, distances, (reason,))
    probabilities = judge.probabilities(curve)
    interval = _interval(probabilities)
    dimension = max(probabilities, key=lambda heads: probabilities[heads])
    if interval[1] - interval[0] >= WIDEST:
        reason = f"the curves fit any dimension from {interval[0]} to {interval[1]}. More data may help."
        return Estimate(None, interval, "cannot tell", None, probabilities, errors, distances, (reason,))
    most = curve.heads[-1]
    if dimension == most or _still_falls(curve):
        reason = (
            f"the error still falls at {most} heads, the most that were tried, so D may be larger. "
            f"Try --max-heads {min(2 * most, 32)}."
        )
        return Estimate(None, interval, "cannot tell", None, probabilities, errors, distances, (reason,))
    reasons = tuple(_reasons(dimension, errors, distances))
    word: Word = "one head is enough" if dimension == 1 else "retrieval"
    recommended = _recommended(dimension, curve)
    return Estimate(dimension, interval, word, recommended, probabilities, errors, distances, reasons)


def adjust_for_pooling(found: Estimate, share: float, *, count: float) -> Estimate:
    """The estimate where so many tokens matter, this share of all: a target that moves with nearly all pools.

    Small falls of its curves come from members that approximate the pooling better, not from retrieval. In a
    sequence hardly longer than D, nearly all tokens matter to retrieval too.
    """
    if found.dimension is None or found.dimension == 1 or share < POOLING or count <= 2 * found.dimension:
        return found
    reason = (
        f"{share:.0%} of the tokens matter at once, so the target pools over its sequence and retrieves "
        f"nothing; that the error still falls at {found.dimension} heads is a matter of size."
    )
    return replace(
        found,
        dimension=1,
        interval=(1, 1),
        verdict="one head is enough",
        recommended_heads=1,
        probabilities={heads: float(heads == 1) for heads in {1, *found.probabilities}},
        reasons=(reason, *found.reasons),
    )


def adjust_for_salience(found: Estimate, *, tokens: int | None) -> Estimate:
    """The estimate beside the number of tokens that matter: where that is another, the interval holds both.

    A number far above D is that of a target that pools, and says nothing of D. One far below it says that the
    members have not learnt to retrieve with few heads what few heads could: then nothing can be told.
    """
    if found.dimension is None or found.interval is None or tokens is None:
        return found
    if tokens == found.dimension or tokens > found.dimension + NEAR:
        return found
    told = f"{tokens} tokens of a sequence matter at once, where the sweep says {found.dimension}"
    wider = _with(found, tokens, f"{told}; the interval holds both.")
    low, high = wider.interval or found.interval
    if high - low < WIDEST:
        return wider
    reason = f"{told}. Longer training, more data or other features may bring the two together."
    return replace(
        wider,
        dimension=None,
        verdict="cannot tell",
        recommended_heads=None,
        reasons=(reason, *found.reasons),
    )


def adjust_for_collisions(found: Estimate, pairs: Sequence[Witness]) -> Estimate:
    """The estimate beside pairs that D − 1 and D heads cannot tell apart.

    Far wider gaps below D bear it out; where they are not, the interval holds D − 1 as well.
    """
    if found.dimension is None or len(pairs) != 2 or min(pair.agreed for pair in pairs) == 0:
        return found
    below, enough = pairs
    told = (
        f"of two sequences that {below.heads} heads cannot tell apart, the targets are typically "
        f"{below.typical_gap:.2g} deviations apart, and {enough.typical_gap:.2g} with {enough.heads}"
    )
    if below.typical_gap >= WIDER * enough.typical_gap:
        return replace(found, reasons=(*found.reasons, f"{told}: that bears it out."))
    return _with(found, below.heads, f"{told}: that leaves {below.heads} possible.")


def _with(found: Estimate, dimension: int, reason: str) -> Estimate:
    """The estimate with one more dimension in its interval."""
    assert found.interval is not None
    low, high = found.interval
    return replace(
        found, interval=(min(low, dimension), max(high, dimension)), reasons=(*found.reasons, reason)
    )


def _interval(probabilities: dict[int, float]) -> tuple[int, int]:
    """The shortest run of dimensions that holds the chance asked for."""
    heads = sorted(probabilities)
    runs = [
        (
            end - start,
            -sum(probabilities[count] for count in heads[start : end + 1]),
            heads[start],
            heads[end],
        )
        for start in range(len(heads))
        for end in range(start, len(heads))
        if sum(probabilities[count] for count in heads[start : end + 1]) >= CONFIDENCE - 1e-9
    ]
    _, _, low, high = min(runs)
    return low, high


def _still_falls(curve: Curve) -> bool:
    """Whether the last two head counts both bring the error down, from where it matters."""
    errors = [float(typical(curve.selected(heads).costs).mean()) for heads in curve.heads[-3:]]
    if len(errors) < 3 or errors[-1] < GOOD_ENOUGH:
        return False
    falls = errors[0] / errors[1], errors[1] / errors[2]
    return min(falls) > A_FALL and falls[0] * falls[1] > TWO_FALLS


def _recommended(dimension: int, curve: Curve) -> int:
    """The first number of heads from D on whose error, of most samples, comes near the lowest.

    Where one head is enough, more are a matter of size.
    """
    if dimension == 1:
        return 1
    errors = {heads: float(typical(curve.selected(heads).costs).mean()) for heads in curve.heads}
    enough = NEAR_THE_BEST * min(errors.values()) + 1e-3
    from_here = [heads for heads in curve.heads if heads >= dimension]
    return next((heads for heads in from_here if errors[heads] <= enough), from_here[-1])


def _reasons(dimension: int, errors: tuple[Point, ...], distances: tuple[Point, ...]) -> list[str]:
    place = [point.heads for point in distances].index(dimension)
    if place == 0:
        return [f"its error is {errors[0].value:.1e}, and more heads bring no fall that counts."]
    before, here = distances[place - 1], distances[place]
    return [
        f"from {before.heads} to {here.heads} heads the distance from members with heads to spare falls "
        f"{before.value / here.value:,.0f}-fold, from {before.value:.1e} to {here.value:.1e}; "
        f"after that no fall counts."
    ]
