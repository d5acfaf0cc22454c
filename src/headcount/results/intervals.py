"""Intervals and tests over seeds that hold as often as they say, with two seeds as with eight.

A bootstrap of a few seeds covers too seldom: resamples vary less than new draws, and the minimum of a
resample is never below that of the draw. So: order statistics for a median, which hold for any
distribution; a line through the seeds for a slope; Welch's t for a difference. Errors go in as logarithms,
shares as they are. A minimum over seeds is reported without an interval.

Training sometimes gets stuck in one seed of several. A few seeds do not bound how often, and so not the mean
over all. What is estimated is the mean of the seeds that are not stuck. Those that are stand beside it as a
count, and the interval of log errors also spans that over all seeds (`spanning`): a claim holds only if it
does with them and without. Differences of shares are over all seeds, and cover that mean up to five of them.

`tests/results/test_intervals.py` measures the coverage over normal, skewed and contaminated noise, with seeds
that are stuck everywhere or at one place only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import stdtr, stdtrit
from scipy.stats import binom

ALPHA = 0.05
ROUNDING = 1e-12  # relative to the values: a deviation below this is none
STUCK_FACTOR = 3  # times the error of the seed before it, at least
STUCK_GAPS = 12  # times the median gap between neighbours, at least
Group = Float[np.ndarray, " value"]


@dataclass(frozen=True)
class Estimated:
    """An estimate with its standard error, which was itself estimated with `freedom` degrees of freedom.

    With an infinite `error` nothing is known of its spread: the interval is the whole line. Where seeds were
    stuck, the value is that of the others, and `over_all` the estimate by all of them.
    """

    value: float
    error: float
    freedom: float
    stuck: int = 0
    over_all: "Estimated | None" = None

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval; where seeds were stuck, from the lower to the upper end of both."""
        if not np.isfinite(self.error):
            return -np.inf, np.inf
        reach = float(stdtrit(self.freedom, 1 - ALPHA / 2)) * self.error if self.error else 0.0
        low, high = self.value - reach, self.value + reach
        if self.over_all is None:
            return low, high
        lowest, highest = self.over_all.interval
        return min(low, lowest), max(high, highest)

    @property
    def p(self) -> float:
        """How often chance alone takes it as far from 0, to either side; the larger of both."""
        if self.over_all is not None:
            alone = replace(self, over_all=None)
            same_side = self.value * self.over_all.value > 0
            return max(alone.p, self.over_all.p) if same_side else 1.0
        if not np.isfinite(self.error):
            return 1.0
        if self.error == 0:
            return float(self.value == 0)
        return float(2 * stdtr(self.freedom, -abs(self.value) / self.error))

    @property
    def sign(self) -> int:
        """1 or -1 where the 95% interval lies on one side of 0, else 0."""
        return int(np.sign(self.value)) if self.p < ALPHA else 0

    @property
    def note(self) -> str:
        """What is to stand beside the interval: how many seeds were stuck."""
        return f"; {self.stuck} stuck" if self.stuck else ""

    def __neg__(self) -> "Estimated":
        return combined([self], [-1.0])

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.value:z.2f} ({low:z.2f} to {high:z.2f}{self.note})"


def stuck(logs: Sequence[Group]) -> list[Bool[np.ndarray, " value"]]:
    """In each group of log errors, the seeds above a wide gap that two or more others stay below.

    Wide is a factor of 3, and 12 times the median gap between neighbours in all groups. The seeds below
    show that the model can learn what those above did not.

    >>> stuck([np.array([0.1, 0.0, 5.0, 0.2]), np.array([1.0, 1.2, 1.1])])[0].tolist()
    [False, False, True, False]
    """
    ordered = [np.sort(group) for group in logs]
    gaps = np.concatenate([np.diff(values) for values in ordered])
    gap = float(np.median(gaps)) if len(gaps) else 0.0
    wide = max(np.log(STUCK_FACTOR), STUCK_GAPS * gap)
    found = []
    for group, values in zip(logs, ordered, strict=True):
        last = np.flatnonzero(np.diff(values[1:]) > wide)  # of the seeds that are not stuck
        found.append(group > (values[1 + last[0]] if gap and len(last) else np.inf))
    return found


def spanning(logs: Sequence[Group], estimate: Callable[[Sequence[Group]], Estimated]) -> Estimated:
    """The estimate over the seeds that are not stuck, with an interval that holds that over all seeds too.

    Outliers that were left out after a look make an interval too narrow where noise is merely skewed: this
    one is never narrower than that over all seeds, and its p never smaller.

    >>> groups = [np.array([0.0, 0.1, 0.2, 5.0]), np.array([-2.0, -1.9, -1.8, -1.7])]
    >>> str(spanning(groups, lambda pair: difference(*pair)))
    '1.95 (-0.72 to 7.07; 1 stuck)'
    """
    over_all, left_out = estimate(logs), stuck(logs)
    count = sum(int(one.sum()) for one in left_out)
    if not count:
        return over_all
    rest = estimate([group[~one] for group, one in zip(logs, left_out, strict=True)])
    return replace(rest, stuck=count, over_all=over_all)


def contrast(groups: Sequence[Group], weights: Sequence[float]) -> Estimated:
    """Σ w_i · mean_i over independent groups, each with a variance of its own (Welch, Satterthwaite).

    The variance of a group of one value is not known. A skewed group with much of the weight makes the
    interval cover less: compare like with like.
    """
    means = np.array([group.mean() for group in groups])
    value = float(np.dot(weights, means))
    if min(map(len, groups)) < 2:
        return Estimated(value, np.inf, 0.0)
    freedoms = np.array([len(group) - 1 for group in groups])
    parts = np.array(
        [w**2 * group.var(ddof=1) / len(group) for w, group in zip(weights, groups, strict=True)]
    )
    error = float(np.sqrt(parts.sum()))
    if error <= ROUNDING * float(np.abs(np.multiply(weights, means)).max()):
        return Estimated(value, 0.0, float(freedoms.sum()))
    return Estimated(value, error, float(parts.sum() ** 2 / (parts**2 / freedoms).sum()))


def log_mean(values: Group) -> Estimated:
    """The logarithm of the mean of positive values: of costs, whose mean varies by a factor.

    Its error follows from that of the mean; with heavy tails it covers better than the mean's own interval.

    >>> round(log_mean(np.array([1.0, 2.0, 3.0])).value, 3)
    0.693
    """
    mean = float(values.mean())
    if mean <= 0:
        return Estimated(-np.inf, 0.0, len(values) - 1)
    error = float(values.std(ddof=1)) / np.sqrt(len(values)) / mean if len(values) > 1 else np.inf
    return Estimated(float(np.log(mean)), error, len(values) - 1)


def combined(parts: Sequence[Estimated], weights: Sequence[float]) -> Estimated:
    """Σ w_i · part_i of independent estimates (Satterthwaite), of which seeds may be stuck in some.

    A part of no weight does not count, whatever is known of it.
    """
    parts, weights = [part for part, w in zip(parts, weights, strict=True) if w], [w for w in weights if w]
    count = sum(part.stuck for part in parts)
    if count:
        rest = [replace(part, stuck=0, over_all=None) for part in parts]
        over_all = combined([part.over_all or part for part in parts], weights)
        return replace(combined(rest, weights), stuck=count, over_all=over_all)
    value = float(np.dot(weights, [part.value for part in parts]))
    variances = np.array([(w * part.error) ** 2 for w, part in zip(weights, parts, strict=True)])
    freedoms = np.array([part.freedom for part in parts])
    if not np.isfinite(variances).all():
        return Estimated(value, np.inf, 0.0)
    if not variances.any():
        return Estimated(value, 0.0, float(freedoms.sum()))
    freedom = variances.sum() ** 2 / (variances**2 / freedoms).sum()
    return Estimated(value, float(np.sqrt(variances.sum())), float(freedom))


def difference(one: Group, other: Group) -> Estimated:
    """mean(one) − mean(other).

    >>> difference(np.array([1.0, 2.0]), np.array([11.0, 12.0])).sign
    -1
    """
    return contrast((one, other), (1.0, -1.0))


def paired(one: Group, other: Group) -> Estimated:
    """The mean of one − other, seed by seed: what seeds share falls out."""
    return contrast((one - other,), (1.0,))


def regression(design: Float[np.ndarray, "value term"], values: Group) -> list[Estimated]:
    """Least squares, each coefficient with the larger of two standard errors: for equal variances, and HC3.

    HC3 holds where seeds spread more at one end; the other steadies it where values are few. A start or data
    that seeds share at several x make slopes more alike than this assumes, and the interval too wide.
    """
    inverse = np.linalg.pinv(design)
    found = inverse @ values
    freedom = len(values) - design.shape[1]
    if freedom < 1:
        return [Estimated(float(value), np.inf, 0.0) for value in found]
    rest = values - design @ found
    leverage = np.minimum(np.einsum("ij,ji->i", design, inverse), 1 - ROUNDING)
    equal = (inverse**2).sum(axis=1) * (rest @ rest) / freedom
    robust = inverse**2 @ (rest / (1 - leverage)) ** 2
    errors = np.sqrt(np.maximum(equal, robust))
    return [Estimated(float(v), float(e), float(freedom)) for v, e in zip(found, errors, strict=True)]


def slope(x: Float[np.ndarray, " place"], groups: Sequence[Group]) -> Estimated:
    """The slope of the line through all values of all groups, one group for each x.

    >>> str(slope(np.array([0.0, 1.0, 2.0]), [np.array([y, y + 0.2]) for y in (0.0, 1.0, 2.0)]))
    '1.00 (0.76 to 1.24)'
    """
    along = np.repeat(x, [len(group) for group in groups])
    return regression(np.stack([np.ones_like(along), along], axis=1), np.concatenate(groups))[1]


def median_interval(values: Group, *, confidence: float = 1 - ALPHA) -> tuple[float, float] | None:
    """Two of the values, between which the median of any distribution lies at least this often.

    The k-th from either end miss it with probability 2 · P(Binomial(count, 1/2) < k); None where even the
    extremes miss it too often: 95% needs six values.

    >>> median_interval(np.arange(8.0)), median_interval(np.arange(5.0))
    ((0.0, 7.0), None)
    """
    count = len(values)
    missed = 2 * binom.cdf(np.arange(count // 2), count, 0.5)
    k = int((missed <= 1 - confidence).sum())
    if k < 1:
        return None
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[count - k])


def median_ratio_interval(one: Group, other: Group) -> tuple[float, float] | None:
    """Between which the median of one over that of the other lies: both intervals hold at once in 95%."""
    ends = [median_interval(values, confidence=1 - ALPHA / 2) for values in (one, other)]
    if ends[0] is None or ends[1] is None:
        return None
    return ends[0][0] / ends[1][1], ends[0][1] / ends[1][0]


def significant(p: Sequence[float], *, alpha: float = ALPHA) -> list[bool]:
    """Which of several tests hold together, by Holm: where all is chance any does in 5% of cases or fewer.

    >>> significant([0.001, 0.04, 0.03])
    [True, False, False]
    """
    order = np.argsort(p, kind="stable")
    held = np.asarray(p)[order] < alpha / np.arange(len(p), 0, -1)
    found = np.zeros(len(p), bool)
    found[order] = np.logical_and.accumulate(held)
    return [bool(one) for one in found]
