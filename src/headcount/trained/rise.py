"""How much the loss rises, from paired samples, with bounds that hold as often as they say."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import norm, t

PerSample = Float[np.ndarray, " sample"]

CONFIDENCE = 0.95
RESAMPLES = 2000
MAX_DISTINCT = 20  # a measure with no more values than this is discrete


@dataclass(frozen=True)
class Rise:
    """The mean rise of the loss, and how far it may lie from it.

    - `low`, `high`: each holds in 95% of cases, one at a time.
    """

    mean: float
    low: float
    high: float
    samples: int

    def to_json(self) -> dict[str, Any]:
        """Its numbers by name."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


def step_of(losses: PerSample) -> float:
    """The range of a discrete measure, such as right or wrong; 0 for a continuous one.

    >>> step_of(np.array([0.0, 1.0, 1.0])), step_of(np.linspace(0, 1, 50))
    (1.0, 0.0)
    """
    return float(np.ptp(losses)) if len(np.unique(losses)) <= MAX_DISTINCT else 0.0


def padded(rises: PerSample, *, step: float = 0.0) -> PerSample:
    """The rises with two more, as far above and below as the furthest (at least `step`).

    Where the measure is discrete, the samples at hand may all be unchanged although one in a hundred changes:
    without these two a bound would then be 0.

    >>> padded(np.array([0.0, -1.0]))
    array([ 0., -1.,  1., -1.])
    """
    furthest = max(float(np.abs(rises).max(initial=0.0)), step)
    return np.concatenate([rises, [furthest, -furthest]])


def bound_to_expect(rises: PerSample, samples: int, *, step: float = 0.0) -> float:
    """The upper bound that so many other samples can be expected to give.

    >>> bound_to_expect(np.array([1.0, 0.0, 0.0, -1.0]), 10**8) < 1e-3 < bound_to_expect(np.eye(4)[0], 9)
    True
    """
    deviation = float(padded(rises, step=step).std(ddof=1))
    return float(rises.mean()) + float(norm.ppf(CONFIDENCE)) * deviation / float(np.sqrt(samples))


def rise_of(rises: PerSample, *, step: float = 0.0, seed: int = 0) -> Rise:
    """The mean, and the wider of the bootstrap's and Student's bounds.

    >>> rise_of(np.zeros(100), step=1.0).high > 0.02
    True
    """
    drawn_from = padded(rises, step=step)
    mean, count = float(rises.mean()), len(drawn_from)
    drawn = np.random.default_rng(seed).integers(count, size=(RESAMPLES, count))
    centre = float(drawn_from.mean())
    # A resample varies less than a new draw, by the degrees of freedom that the mean took.
    wider = float(t.ppf(CONFIDENCE, count - 1) / norm.ppf(CONFIDENCE)) * np.sqrt(count / (count - 1))
    below, above = wider * (
        np.quantile(drawn_from[drawn].mean(axis=1), [1 - CONFIDENCE, CONFIDENCE]) - centre
    )
    student = float(t.ppf(CONFIDENCE, count - 1)) * float(drawn_from.std(ddof=1)) / np.sqrt(count)
    down, up = (float(max(student, reach)) for reach in (-below, above))
    return Rise(mean, mean - down, mean + up, len(rises))
