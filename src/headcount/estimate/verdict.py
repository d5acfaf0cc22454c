"""From the curves of a head sweep to a dimension, an interval and a recommendation."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import isotonic_regression
from scipy.special import expit

from headcount.estimate.budget import Budget
from headcount.estimate.curve import Curve, Point, typical, values
from headcount.results.numbers import fold, scientific
from headcount.version import __version__

Chances = Float[np.ndarray, " head_count"]
Flags = Bool[np.ndarray, " head_count"]
VerdictWord = Literal["retrieval", "one head is enough", "cannot tell"]

LEARNT_NOTHING = 0.97  # above this error a member has learnt nothing from x
CONFIDENCE = 0.95
WIDEST = 4  # an interval with more values than this decides nothing
GOOD_ENOUGH = 2e-3  # below this error a further fall is ignored
A_FALL, TWO_FALLS = 1.1, 1.35  # ratios of errors over one head count and over two: the error still falls
NEAR_THE_BEST = 2  # times the lowest error: close enough to be recommended
HARDLY_AN_ERROR = 1e-3  # of the variance: a difference that nobody needs another head for
# The parameter in a reason that recommends more heads; the command line words it as its option.
PARAMETER, MAX_HEADS = "max_heads=", 32
# Of the law of distances.
FURTHEST_OUT = 4.0  # deviations: more add no evidence
CLEARLY_OUT = 2.0  # from here on the size of a distance counts in full
SMALL, SMALL_FOR_LABELS = -3.0, -2.0  # decimal logs of distances that hardly matter
# Of falls, chosen by the tasks in benchmarks/suite_mending.py and the recorded curves of those of known D.
LARGE_FALL, ITS_ERROR = 5.0, 1.5  # times the distance and the error fall where heads retrieve more
NOTICEABLE, NOTICEABLE_FOR_LABELS = 2e-4, 1e-3  # a distance below this falls by chance
LITTLE_LEFT = 4.0  # times a fine distance above those of more heads: no retrieval is missing
FINE = 1e-2  # a distance above this falls slowly, even where something is retrieved
SURE = 0.99


@dataclass(frozen=True)
class Estimate:
    """How many things a task retrieves at once, and how many heads to give it.

    - `dimension`: D; 1 where one head is enough, None where this data and this training cannot tell.
    - `interval`: the shortest range of D with a probability of 95%.
    - `probabilities`: of every D.
    - `errors`, `distances`: the two curves over the number of heads.
    - `typical_errors`: the errors over all but the furthest few samples, which distances leave out.
    - `accuracies`: of labels, the share that is right.
    - `early_errors`, `early_distances`: of all head counts, from the first look.
    - `deciding`: which curve decides and why, where the two disagree; otherwise empty.
    - `reasons`: why, and what to try next; the first one explains the verdict.
    - `pools`: whether the target also averages over its tokens; the average then counts as one of D.
    - `labels`: whether y are labels.
    - `budget`: the training behind it, where somebody would not wait for all of it.
    - `seconds`, `compile_seconds`: how long it took, and how much of that programs were compiled.
    - `early`: whether it is a first guess, which nothing calibrates.
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
    compile_seconds: float = 0.0
    machine: str = ""
    pools: bool = False
    labels: bool = False
    typical_errors: tuple[Point, ...] = ()
    accuracies: tuple[Point, ...] = ()
    early_errors: tuple[Point, ...] = ()
    early_distances: tuple[Point, ...] = ()
    deciding: str = ""
    budget: Budget | None = None
    early: bool = False

    def __repr__(self) -> str:
        """The answer; the curves are in its fields."""
        return f"<{type(self).__name__}: {self.sentence}>"

    @property
    def sentence(self) -> str:
        """The verdict in one sentence; another says so where it was trained less than usual."""
        note = "" if self.budget is None else self.budget.note
        return f"{self._verdict_in_words} {note}".rstrip()

    @property
    def likeliest(self) -> int:
        """The dimension of the highest probability; 1 where there are none."""
        return max(self.probabilities, key=lambda heads: self.probabilities[heads], default=1)

    @property
    def _verdict_in_words(self) -> str:
        if self.dimension is None or self.interval is None:
            return f"Cannot tell how many heads this task needs: {self.reasons[0]}"
        low, high = self.interval
        calibrated = not self.early and (self.budget is None or self.budget.complete)
        name = "95% interval" if calibrated else "uncalibrated interval"
        if self.dimension == 1:
            span = "" if high == 1 else f" ({name} of D: {low} to {high})"
            better = f", though {self.recommended_heads} do better" if self.recommended_heads != 1 else ""
            return f"One head is enough{span}{better}: {self.reasons[0]}"
        span = f"{name}: {low} alone" if low == high else f"{name}: {low} to {high}"
        things = f"D = {self.dimension} things at once"
        what = (
            f"averages over its tokens and retrieves: {things}, the average among them"
            if self.pools
            else f"retrieves {things}"
        )
        return f"This task {what} ({span}): with one layer, give it {self.recommended_heads} heads."

    def to_json(self) -> dict[str, Any]:
        """The content of estimate.json."""
        return {
            "sentence": self.sentence,
            "deciding": self.deciding,
            "dimension": self.dimension,
            "interval": list(self.interval) if self.interval else None,
            "verdict": self.verdict,
            "recommended_heads": self.recommended_heads,
            "pools": self.pools,
            "evidence": {
                "sweep": {
                    "probabilities": {str(heads): chance for heads, chance in self.probabilities.items()},
                    "distances": [asdict(point) for point in self.distances],
                },
                **self.evidence,
            },
            "curve": self._curve(),
            "reasons": list(self.reasons),
            "budget": None if self.budget is None else asdict(self.budget),
            "seconds": round(self.seconds, 1),
            "compile_seconds": round(self.compile_seconds, 1),
            "machine": self.machine,
            "version": __version__,
        }

    def _curve(self) -> list[dict[str, Any]]:
        """The errors by heads, of labels with the share that is right."""
        typical_errors = {point.heads: point.value for point in self.typical_errors}
        accuracies = {point.heads: point for point in self.accuracies}
        rows: list[dict[str, Any]] = []
        for point in self.errors:
            row = {"heads": point.heads, "error": point.value, "interval": [point.low, point.high]}
            if point.heads in typical_errors:
                row["typical_error"] = typical_errors[point.heads]
            if point.heads in accuracies:
                right = accuracies[point.heads]
                row |= {"accuracy": right.value, "accuracy_interval": [right.low, right.high]}
            rows.append(row)
        return rows


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
    - `falls`: whether falls that are plain to see decide before the rest.
    """

    constant: float
    excess: float
    level: float
    rest: float
    falls: bool = True

    def probabilities(self, curve: Curve) -> dict[int, float]:
        """The probability of every D."""
        return probabilities_of(curve.heads, self.chances(curve))

    def chances(self, curve: Curve) -> Chances:
        """For every number of heads but the last, the probability that it is not enough; it never rises."""
        return self.chances_of(Measures.of(curve))

    def chances_of(self, measures: "Measures") -> Chances:
        """The same from what is measured of a curve."""
        size = (self.level * measures.level + self.rest * measures.rest) * measures.clear
        chances: np.ndarray = expit(self.constant + self.excess * measures.out + size)
        chances = np.minimum.accumulate(chances)
        return self._with_falls(chances, measures) if self.falls else chances

    def _with_falls(self, chances: Chances, measures: "Measures") -> Chances:
        """What falls say: where little is left to fall no head is missing, before a far fall one is."""
        chances = np.where(measures.little_left, np.minimum(chances, 1 - SURE), chances)
        for place in np.flatnonzero(measures.falls_far):
            chances[: place + 1] = np.maximum(chances[: place + 1], SURE)
        return np.minimum.accumulate(chances)


@dataclass(frozen=True, eq=False)
class Measures:
    """What the law measures of a curve, for every number of heads but the last.

    - `out`: deviations by which the log distance lies above those within the reference, at most FURTHEST_OUT.
    - `level`: the decimal log of the distance, relative to a small one.
    - `rest`: the decimal log of the distance relative to that of the fewest heads, below a tenth.
    - `little_left`: whether the distance is fine and near those of more heads.
    - `falls_far`: whether distance and error fall far to the next number of heads.
    """

    out: Chances
    level: Chances
    rest: Chances
    little_left: Flags
    falls_far: Flags

    @classmethod
    def of(cls, curve: Curve) -> "Measures":
        """The measures of a curve."""
        distances, errors = curve.distances(), curve.errors()
        logs = np.log(np.maximum(values(distances), 1e-12))
        falling = isotonic_regression(logs, increasing=False).x
        usual, deviation = curve.reference_spread
        level = falling / np.log(10) - (SMALL_FOR_LABELS if curve.labels else SMALL)
        far = [falls_far(errors, distances, heads, labels=curve.labels) for heads in curve.heads[1:]]
        return cls(
            out=np.clip((falling - usual) / deviation, 0, FURTHEST_OUT)[:-1],
            level=level[:-1],
            rest=np.minimum((falling - falling[0]) / np.log(10) + 1, 0)[:-1],
            little_left=little_left(distances),
            falls_far=np.array(far, bool),
        )

    @property
    def clear(self) -> Chances:
        """How much the size of a distance counts: in full where it clearly lies outside the reference."""
        return np.minimum(self.out / CLEARLY_OUT, 1)


def probabilities_of(heads: Sequence[int], chances: Chances) -> dict[int, float]:
    """The probability of every D: that D − 1 heads are not enough, and that D are."""
    not_enough = np.concatenate([[1.0], chances, [0.0]])
    return dict(zip(heads, (not_enough[:-1] - not_enough[1:]).tolist(), strict=True))


def little_left(distances: Sequence[Point]) -> Flags:
    """Of every number of heads but the last, whether its distance is fine and near those of more heads."""
    here = values(distances)
    later = np.array([np.median(here[place + 1 :]) for place in range(len(here) - 1)])
    near: np.ndarray = (here[:-1] < FINE) & (here[:-1] < LITTLE_LEFT * later)
    return near


def falls_far(errors: Sequence[Point], distances: Sequence[Point], heads: int, *, labels: bool) -> bool:
    """Whether this head count lowers distance and error too far for an effect of model size.

    Held against the lowest of all fewer heads: one of them may have got stuck.
    """
    place = [point.heads for point in distances].index(heads)
    if place == 0:
        return False
    before, here = values(distances[:place]).min(), distances[place].value
    noticeable = before >= (NOTICEABLE_FOR_LABELS if labels else NOTICEABLE)
    in_error = values(errors[:place]).min() >= ITS_ERROR * errors[place].value
    return bool(noticeable and in_error and before >= LARGE_FALL * here)


# For curves after a tenth of the training, and after all of it.
EARLY = DimensionLaw(-5.4, 1.5, 2.1, 5.0, falls=False)
FINAL = DimensionLaw(-5.7, 2.1, 4.5, 0.8)


def decide(curve: Curve, *, law: DimensionLaw = FINAL) -> Estimate:
    """The estimate from the curves alone."""
    errors, distances = tuple(curve.errors()), tuple(curve.distances())
    nothing = Estimate(None, None, "cannot tell", None, {}, errors, distances, (), labels=curve.labels)
    more = {"typical_errors": tuple(curve.typical_errors()), "accuracies": tuple(curve.accuracies())}
    nothing = replace(nothing, **more)  # type: ignore[arg-type]  # mypy expects one type for all fields
    if len(errors) < 2:
        reason = f"models of only {len(errors)} head counts were trained without diverging; two are needed."
        return replace(nothing, reasons=(reason,))
    lowest = min(point.value for point in errors)
    if min(point.high for point in errors) > LEARNT_NOTHING:
        reason = (
            f"no model learnt anything: the lowest error is {lowest:.2f}, and ignoring x has 1. "
            "More data, longer training or other features may help."
        )
        return replace(nothing, reasons=(reason,))
    probabilities = law.probabilities(curve)
    interval = _interval(probabilities)
    nothing = replace(nothing, interval=interval, probabilities=probabilities)
    dimension = nothing.likeliest
    if interval[1] - interval[0] >= WIDEST:
        reason = f"the curves fit any D from {interval[0]} to {interval[1]}. More data may help."
        return replace(nothing, reasons=(reason,))
    most = curve.heads[-1]
    if dimension == most or _still_falls(curve):
        falls = f"the {measure_of(curve.labels)} still falls at {most} heads"
        reason = f"{falls}, the most that were tried, so D may be larger."
        advice = f"try more heads: {PARAMETER}{min(2 * most, MAX_HEADS)}."
        return replace(nothing, reasons=(reason, advice) if most < MAX_HEADS else (reason,))
    word: VerdictWord = "one head is enough" if dimension == 1 else "retrieval"
    recommended = recommended_heads(dimension, curve)
    why = _reason(dimension, errors, distances, curve.labels)
    reasons = (why, *_why_more(dimension, recommended, errors, curve.labels))
    return replace(nothing, dimension=dimension, verdict=word, recommended_heads=recommended, reasons=reasons)


def without_doubtful_retrieval(found: Estimate) -> Estimate:
    """An interval that holds 1 does not say that anything is retrieved: then the answer is "cannot tell"."""
    if found.dimension is None or found.dimension == 1 or found.interval is None or found.interval[0] > 1:
        return found
    reason = (
        f"D = {found.dimension} is the likeliest, but one head may be enough too: the interval is "
        f"{found.interval[0]} to {found.interval[1]}. More data or longer training may decide."
    )
    return unsure(found, reason)


def unsure(found: Estimate, reason: str) -> Estimate:
    """The same curves with the verdict "cannot tell"."""
    return replace(
        found,
        dimension=None,
        verdict="cannot tell",
        recommended_heads=None,
        pools=False,
        deciding="",
        reasons=(reason, *found.reasons),
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


def recommended_heads(dimension: int, curve: Curve) -> int:
    """The first number of heads from D on whose error is not clearly above twice the lowest.

    The lowest is that of the head count with the lowest validation error. "Clearly": the mean difference over
    the test samples, without the furthest few, lies two standard errors above a thousandth of the variance.
    """
    from_here = [heads for heads in curve.heads if heads >= dimension]
    best = curve.selected(min(from_here, key=lambda heads: curve.selected(heads).validation_error)).costs

    def clearly_above(costs: Float[np.ndarray, " sample"]) -> bool:
        apart = typical(costs - NEAR_THE_BEST * best)
        standard_error = apart.std(ddof=1) / np.sqrt(len(apart))
        return bool(apart.mean() - 2 * standard_error > HARDLY_AN_ERROR)

    return next(heads for heads in from_here if not clearly_above(curve.selected(heads).costs))


def measure_of(labels: bool) -> str:
    """What the first curve shows."""
    return "log loss" if labels else "error"


def _why_more(dimension: int, recommended: int, errors: tuple[Point, ...], labels: bool) -> tuple[str, ...]:
    """Why more heads are recommended than are needed."""
    if recommended == dimension:
        return ()
    of = {point.heads: point.value for point in errors}
    holds = f"{dimension} head{'s hold' if dimension > 1 else ' holds'} what must be retrieved"
    return (
        f"{holds}, but the {measure_of(labels)} is {scientific(of[dimension])} with {dimension} and "
        f"{scientific(of[recommended])} with {recommended}.",
    )


def _reason(dimension: int, errors: tuple[Point, ...], distances: tuple[Point, ...], labels: bool) -> str:
    place = [point.heads for point in distances].index(dimension)
    if place == 0:
        lowest = f"its {measure_of(labels)} is {scientific(errors[0].value)}"
        return f"{lowest}, and more heads bring no significant improvement."
    before, here = distances[place - 1], distances[place]
    return (
        f"from {before.heads} to {here.heads} heads the distance from models with more heads than needed "
        f"falls {fold(before.value, here.value)}, from {scientific(before.value)} to "
        f"{scientific(here.value)}; further heads bring no significant fall."
    )
