"""Standardisation that is exact for numbers of any size: subtract the mean, divide by the deviation."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

ROUNDING = 100 * float(np.finfo(np.float64).eps)
FAR_FROM_ZERO = 1e3  # deviations


class Scale(NamedTuple):
    """Mean and deviation of every column minus `origin`, in units of 2^exponent: no square overflows."""

    exponent: Int[np.ndarray, " column"]
    origin: Float[np.ndarray, " column"]
    mean: Float[np.ndarray, " column"]
    deviation: Float[np.ndarray, " column"]

    @property
    def constant(self) -> Bool[np.ndarray, " column"]:
        """Where all numbers are equal."""
        return self.deviation == 0

    @property
    def steady(self) -> Bool[np.ndarray, " column"]:
        """Where the numbers differ by no more than rounding."""
        return self.deviation <= ROUNDING * abs(self.origin + self.mean)

    @property
    def awkward(self) -> Bool[np.ndarray, " column"]:
        """Where float32 would lose much of their precision: far from zero, very large or very small."""
        deviation = np.ldexp(self.deviation, self.exponent)
        far = abs(self.origin + self.mean) > FAR_FROM_ZERO * self.deviation
        return far | (deviation > 1e6) | (deviation < 1e-6)

    def standardised(self, numbers: Float[np.ndarray, "*rows column"]) -> Float[np.ndarray, "*rows column"]:
        """Every column with mean 0 and deviation 1; 0 where it is steady."""
        centred = np.ldexp(numbers, -self.exponent) - self.origin - self.mean
        return np.where(self.steady, 0, centred / np.where(self.steady, 1, self.deviation))


def scale_of(numbers: Float[np.ndarray, "row column"]) -> Scale:
    """The scale of every column, with its first number as the origin if it lies far from zero.

    >>> scale = scale_of(np.array([[1e200, 1e13], [3e200, 1e13 + 2]]))
    >>> scale.standardised(np.array([[5e200, 1e13]])).round(6)
    array([[ 3., -1.]])
    """
    exponent = np.frexp(abs(numbers).max(axis=0))[1]
    units = np.ldexp(numbers, -exponent)
    far = abs(units.mean(axis=0)) > FAR_FROM_ZERO * units.std(axis=0)
    origin = np.where(far, units[0], 0)
    units -= origin
    return Scale(exponent, origin, units.mean(axis=0), units.std(axis=0))
