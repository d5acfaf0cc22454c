"""How an error is written and where it stands on a logarithmic axis."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

FURTHEST = 300  # 10 ** -324 is already 0 in float64, and 10 ** 309 infinite


def scientific(value: float) -> str:
    """Two digits and a short exponent, as on the axes of the charts.

    >>> scientific(0.00031), scientific(1), scientific(0), scientific(float("nan"))
    ('3.1e-4', '1.0e+0', '0', '–')
    """
    if math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent):+d}"


@dataclass(frozen=True)
class Decades:
    """The whole powers of ten from 10^low to 10^high that hold all errors."""

    low: int
    high: int

    @property
    def domain(self) -> list[float]:
        """Both ends, as numbers."""
        return [10.0**self.low, 10.0**self.high]

    @property
    def middle(self) -> float:
        """The error half way up the axis."""
        return math.sqrt(self.domain[0]) * math.sqrt(self.domain[1])

    def ticks(self, *, most: int) -> list[float]:
        """Whole decades, thinned to about `most`; 1, 2 and 5 where there is only one."""
        span = self.high - self.low
        if span == 1:
            return [digit * 10.0**self.low for digit in (1, 2, 5, 10)]
        return [10.0**exponent for exponent in range(self.low, self.high + 1, math.ceil(span / most))]

    def place(self, errors: "pd.Series[float]") -> "pd.Series[float]":
        """Every error at its own value, but zero, which has no logarithm, at the lower edge."""
        return errors.clip(*self.domain)


def decades(errors: "pd.Series[float]") -> Decades:
    """The axis for these errors, with a decade of room at the bottom if any of them is zero."""
    finite = errors[np.isfinite(errors)]
    positive = finite[finite > 0]
    if positive.empty:
        return Decades(low=-8, high=0)
    low = min(max(math.floor(math.log10(positive.min())), -FURTHEST), FURTHEST - 1)
    high = min(max(math.ceil(math.log10(positive.max())), low + 1), FURTHEST)
    return Decades(low=low - int((finite == 0).any()), high=high)
