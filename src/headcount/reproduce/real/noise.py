"""What counts as a difference between shares of samples, and what as none."""

from typing import Any

import numpy as np
import pandas as pd
from pandas.api.typing import SeriesGroupBy

LEARNT = 1e-3  # a smaller share counts as none


def noise_of(cells: "SeriesGroupBy[Any, Any]") -> "pd.Series[float]":
    """Two standard errors of the mean of each cell; for a single seed, the largest of the other cells."""
    noise = 2 * cells.sem()
    return noise.fillna(noise.max()).fillna(0)


def allowed(one: float, other: float) -> float:
    """How far two means may lie apart, given the noise of each, and count as level."""
    return max(LEARNT, float(np.hypot(one, other)))
