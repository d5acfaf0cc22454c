"""The bootstrap: how a statistic of some values varies when they are drawn again with replacement.

For means of hundreds of samples. Of a few seeds it covers too seldom: `results/intervals.py` is for those.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

MAX_DRAWN = 1 << 20  # values drawn at a time: their places and the values are 8 MiB each


def resampled(
    values: Float[np.ndarray, " value"],
    resamples: int,
    random: np.random.Generator,
    *,
    of: Callable[..., Any] = np.mean,
) -> Float[np.ndarray, " resample"]:
    """A statistic of each resample, drawn in slices so that memory stays small.

    Slices continue one stream of random numbers, so their size does not change the result.

    >>> resampled(np.array([2.0, 2.0]), 3, np.random.default_rng(0))
    array([2., 2., 2.])
    """
    count = len(values)
    rows = max(1, MAX_DRAWN // count)
    slices = [(min(rows, resamples - done), count) for done in range(0, resamples, rows)]
    return np.concatenate([of(values[random.integers(count, size=shape)], axis=1) for shape in slices])


def interval_95(statistics: Float[np.ndarray, " resample"]) -> tuple[float, float]:
    """The 2.5% and 97.5% quantiles."""
    low, high = np.quantile(statistics, (0.025, 0.975))
    return float(low), float(high)
