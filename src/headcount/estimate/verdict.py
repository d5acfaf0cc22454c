"""From the curves of a head sweep to a dimension, an interval and a recommendation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression
from scipy.special import expit

from headcount.estimate.curve import Curve, Point, typical, values
from headcount.version import __version__

if TYPE_CHECKING:
    from headcount.estimate.collisions import CollisionGaps

VerdictWord = Literal["retrieval", "one head is enough", "cannot tell"]

LEARNT_NOTHING = 0.97  # above this error a member has learnt nothing from x
CONFIDENCE = 0.95
WIDEST = 4  # an interval with more values than this decides nothing
POOLING = 0.8  # of the tokens: a target that depends on this share pools
NEAR = 2  # more tokens than D + this matter only to a target that pools
WIDER = 3  # times the gap of D heads: a gap of D − 1 heads that confirms D
GOOD_ENOUGH = 2e-3  # below this error a further fall is ignored
A_FALL, TWO_FALLS = 1.1, 1.35  # ratios of errors over one head count and over two: the error still falls
NEAR_THE_BEST = 1.5  # times the lowest error: close enough to be recommended
# The parameter in a reason that recommends more heads; the command line words it as its option.
PARAMETER, MAX_HEADS = "max_heads=", 32
# Of the law of distances.
FURTHEST_OUT = 4.0  # deviations: more add no evidence
CLEARLY_OUT = 2.0  # from here on the size of a distance counts in full
SMALL, SMALL_FOR_LABELS = -3.0, -2.0  # decimal logs of distances that hardly matter


@dataclass(frozen=True)
class Estimate:
    """How many things a task retrieves at once, and how many heads to give it.

    - `dimension`: D; 1 where one head is enough, None where this data and this training cannot tell.
    - `interval`: the shortest range of D with a probability of 95%.
    - `probabilities`: of every D.
    - `errors`, `distances`: the two curves over the number of heads.
    - `reasons`: why, and what to try next; the first one explains the verdict.
    """

    dimension: int | None
    interval: tuple[int, int] | None
    verdict: VerdictWord
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
        """The verdict in one sentence."""
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
        """The content of estimate.json."""
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


@dataclass(frozen=True)
class DimensionLaw:
    """A logistic law of three measures of the distance of h heads.

    Its weights are close to a fit to the CALIBRATION tasks (benchmarks/dimension_tasks.py) that were trained
    at the time; its form was chosen with an earlier draw of the reported tasks in view (docs/estimate.md).

    More heads can do all that fewer can, so the curve is first made monotone (isotonic regression): any rise
    in it is chance.

    - `excess`: weight of how far the log distance lies above those within the reference, in their standard
      deviations. Reference members differ too: by their starts, and for lack of samples.
    - `level`: weight of the decimal log of the distance, relative to a small one. Mean pooling gains a little
      from more heads, and that is not retrieval.
    - `rest`: weight of the decimal log of the distance relative to that of the fewest heads, below a tenth.
    """

    constant: float
    excess: float
    level: float
    rest: float

    def probabilities(self, curve: Curve) -> dict[int, float]:
        """The probability of every D: that D − 1 heads are not enough, and that D are."""
        not_enough = np.concatenate([[1.0], self.chances(curve), [0.0]])
        return dict(zip(curve.heads, (not_enough[:-1] - not_enough[1:]).tolist(), strict=True))

    def chances(self, curve: Curve) -> Float[np.ndarray, " head_count"]:
        """For every number of heads but the last, the probability that it is not enough; it never rises."""
        logs = np.log(np.maximum(values(curve.distances()), 1e-12))
        falling = isotonic_regression(logs, increasing=False).x
        usual, deviation = curve.reference_spread
        out = np.clip((falling - usual) / deviation, 0, FURTHEST_OUT)
        level = falling / np.log(10) - (SMALL_FOR_LABELS if curve.labels else SMALL)
        rest = np.minimum((falling - falling[0]) / np.log(10) + 1, 0)
        size = (self.level * level + self.rest * rest) * np.minimum(out / CLEARLY_OUT, 1)
        chances: np.ndarray = expit(self.constant + self.excess * out + size)[:-1]
        return np.minimum.accumulate(chances)


# For curves after a tenth of the training, and after all of it.
EARLY, FINAL = DimensionLaw(-5.4, 1.5, 2.1, 5.0), DimensionLaw(-5.7, 2.1, 4.5, 0.8)


def decide(curve: Curve, *, law: DimensionLaw = FINAL) -> Estimate:
    """The estimate from the curves alone."""
    errors, distances = tuple(curve.errors()), tuple(curve.distances())
    unsure = Estimate(None, None, "cannot tell", None, {}, errors, distances, ())
    if len(errors) < 2:
        reason = f"models of only {len(errors)} head counts were trained without diverging; two are needed."
        return replace(unsure, reasons=(reason,))
    lowest = min(point.value for point in errors)
    if min(point.high for point in errors) > LEARNT_NOTHING:
        reason = (
            f"no model learnt anything: the lowest error is {lowest:.2f}, and ignoring x has 1. "
            "More data, longer training or other features may help."
        )
        return replace(unsure, reasons=(reason,))
    probabilities = law.probabilities(curve)
    interval = _interval(probabilities)
    unsure = replace(unsure, interval=interval, probabilities=probabilities)
    dimension = max(probabilities, key=lambda heads: probabilities[heads])
    if interval[1] - interval[0] >= WIDEST:
        reason = f"the curves fit any D from {interval[0]} to {interval[1]}. More data may help."
        return replace(unsure, reasons=(reason,))
    most = curve.heads[-1]
    if dimension == most or _still_falls(curve):
        reason = f"the error still falls at {most} heads, the most that were tried, so D may be larger."
        advice = f"try more heads: {PARAMETER}{min(2 * most, MAX_HEADS)}."
        return replace(unsure, reasons=(reason, advice) if most < MAX_HEADS else (reason,))
    word: VerdictWord = "one head is enough" if dimension == 1 else "retrieval"
    recommended = _recommended(dimension, curve)
    reason = _reason(dimension, errors, distances)
    return Estimate(dimension, interval, word, recommended, probabilities, errors, distances, (reason,))


def adjust_for_pooling(found: Estimate, share: float, *, count: float) -> Estimate:
    """One head is enough where this share of all tokens, `count` of them, matters: such a target pools.

    Its curves fall a little because more heads approximate the pooling better, not because of retrieval. In a
    sequence hardly longer than D, nearly all tokens matter to retrieval too.
    """
    if found.dimension is None or found.dimension == 1 or share < POOLING or count <= 2 * found.dimension:
        return found
    reason = (
        f"{share:.0%} of the tokens matter at once, so the target pools over its sequence and retrieves "
        f"nothing; that the error still falls at {found.dimension} heads is an effect of model size."
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
    """Widen the interval to the number of tokens that matter, where that is not D.

    A number far above D belongs to a target that pools, and says nothing about D. One far below D means that
    members with few heads have not learnt what few heads could retrieve: then the answer is "cannot tell".
    """
    if found.dimension is None or found.interval is None or tokens is None:
        return found
    if tokens == found.dimension or tokens > found.dimension + NEAR:
        return found
    both = f"{tokens} tokens of a sequence matter at once, but the sweep gives D = {found.dimension}"
    wider = _with(found, tokens, f"{both}; the interval includes both.")
    low, high = wider.interval or found.interval
    if high - low < WIDEST:
        return wider
    reason = f"{both}. Longer training, more data or other features may reconcile the two."
    return replace(
        wider,
        dimension=None,
        verdict="cannot tell",
        recommended_heads=None,
        reasons=(reason, *found.reasons),
    )


def adjust_for_collisions(found: Estimate, pairs: "Sequence[CollisionGaps]") -> Estimate:
    """Compare the pairs that D − 1 and D heads cannot distinguish.

    Far wider gaps below D confirm it; where they are not wider, the interval includes D − 1 too.
    """
    if found.dimension is None or len(pairs) != 2 or min(pair.agreed for pair in pairs) == 0:
        return found
    below, enough = pairs
    gaps = (
        f"the targets of two sequences that {below.heads} heads cannot distinguish are typically "
        f"{below.typical_gap:.2g} standard deviations apart, and {enough.typical_gap:.2g} with {enough.heads}"
    )
    if below.typical_gap >= WIDER * enough.typical_gap:
        return replace(found, reasons=(*found.reasons, f"{gaps}: that confirms D = {found.dimension}."))
    return _with(found, below.heads, f"{gaps}: D = {below.heads} remains possible.")


def _with(found: Estimate, dimension: int, reason: str) -> Estimate:
    """The estimate with one more dimension in its interval."""
    assert found.interval is not None
    low, high = found.interval
    return replace(
        found, interval=(min(low, dimension), max(high, dimension)), reasons=(*found.reasons, reason)
    )


def _interval(probabilities: dict[int, float]) -> tuple[int, int]:
    """The shortest range of dimensions with at least the probability CONFIDENCE."""
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
    """Whether the last two head counts both lower an error that is not small already."""
    errors = [float(typical(curve.selected(heads).costs).mean()) for heads in curve.heads[-3:]]
    if len(errors) < 3 or errors[-1] < GOOD_ENOUGH:
        return False
    falls = errors[0] / errors[1], errors[1] / errors[2]
    return min(falls) > A_FALL and falls[0] * falls[1] > TWO_FALLS


def _recommended(dimension: int, curve: Curve) -> int:
    """The first number of heads from D on whose error, of most samples, is close to the lowest.

    Where one head is enough, more heads only add size.
    """
    if dimension == 1:
        return 1
    errors = {heads: float(typical(curve.selected(heads).costs).mean()) for heads in curve.heads}
    enough = NEAR_THE_BEST * min(errors.values()) + 1e-3
    from_here = [heads for heads in curve.heads if heads >= dimension]
    return next((heads for heads in from_here if errors[heads] <= enough), from_here[-1])


def _reason(dimension: int, errors: tuple[Point, ...], distances: tuple[Point, ...]) -> str:
    place = [point.heads for point in distances].index(dimension)
    if place == 0:
        return f"its error is {errors[0].value:.1e}, and more heads bring no significant improvement."
    before, here = distances[place - 1], distances[place]
    return (
        f"from {before.heads} to {here.heads} heads the distance from models with more heads than needed "
        f"falls {before.value / here.value:,.0f}-fold, from {before.value:.1e} to {here.value:.1e}; further "
        "heads bring no significant fall."
    )
