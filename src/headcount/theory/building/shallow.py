"""One-hidden-layer ReLU networks with a known error: built from knots where a function allows it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil, sqrt

import numpy as np
from jaxtyping import Float

from headcount.errors import InvalidInput

Points = Float[np.ndarray, "points inputs"]

MOST_KNOTS = 1 << 14


class OutOfReach(InvalidInput):
    """A tolerance that no network within the limits meets; `possible` is the nearest one that can be met."""

    def __init__(self, tolerance: float, possible: float, reason: str) -> None:
        super().__init__(f"tolerance = {tolerance:.3g}: {reason}; {possible:.3g} is possible")
        self.tolerance, self.possible, self.reason = tolerance, possible, reason


@contextmanager
def within_reach(epsilon: float) -> Iterator[None]:
    """Says of a tolerance out of reach what it means for the epsilon that was asked for."""
    try:
        yield
    except OutOfReach as error:
        possible = epsilon * error.possible / error.tolerance * 1.01
        raise InvalidInput(
            f"epsilon = {epsilon:g}: {error.reason}; epsilon = {possible:.2g} would be possible"
        ) from error


@dataclass(frozen=True, eq=False)
class Shallow:
    """outer · relu(inner · x + offset) + constant on [0,1]^inputs, next to the function it stands for.

    `error` is how far the two are apart at most; `proven` says whether that was derived or measured, and
    `inside` whether no value leaves [0, 1].
    """

    inner: Float[np.ndarray, "unit inputs"]
    offset: Float[np.ndarray, " unit"]
    outer: Float[np.ndarray, "output unit"]
    constant: Float[np.ndarray, " output"]
    error: float
    proven: bool
    inside: bool = False

    @property
    def units(self) -> int:
        """The width of the hidden layer."""
        return len(self.offset)

    def __call__(self, x: Points) -> Float[np.ndarray, "points output"]:
        """Its values, row by row."""
        return np.maximum(x @ self.inner.T + self.offset, 0) @ self.outer.T + self.constant


def linear(slopes: Float[np.ndarray, "output inputs"], constant: Float[np.ndarray, " output"]) -> Shallow:
    """Slopes · x + constant, exactly: on the cube every x_j is its own ReLU.

    >>> net = linear(np.array([[2.0, -1.0]]), np.array([3.0]))
    >>> net(np.array([[0.5, 1.0]])), net.error
    (array([[3.]]), 0.0)
    """
    inputs = slopes.shape[1]
    return Shallow(np.eye(inputs), np.zeros(inputs), slopes, constant, error=0.0, proven=True)


def non_negative(slope: Float[np.ndarray, " inputs"], constant: float) -> Shallow:
    """Slope · x + constant where that lies in [0, 1] on the cube: a single unit."""
    ones = np.ones((1, 1))
    return Shallow(slope[None], np.array([constant]), ones, np.zeros(1), error=0.0, proven=True, inside=True)


def parabolas(
    centre: Float[np.ndarray, " inputs"], curvature: float, constant: float, tolerance: float
) -> Shallow:
    """Curvature · |x − centre|² + constant by equal steps s along each axis.

    Between two knots a parabola a u² departs from its chord by at most |a| s² / 4, so the sum over the axes
    departs by at most inputs · |a| s² / 4. It is also the multilinear interpolation of the sum on a grid,
    a weighted mean of true values: it never leaves their range.

    >>> net = parabolas(np.array([0.5]), 4.0, 0.0, tolerance=0.01)
    >>> net.units, net.error <= 0.01, float(net(np.array([[1.0]]))[0, 0])
    (10, True, 1.0)
    """
    inputs = len(centre)
    finest = inputs * abs(curvature) / (4 * MOST_KNOTS**2)
    if tolerance < finest:
        raise OutOfReach(tolerance, finest, f"more than {MOST_KNOTS} knots an axis would be needed")
    steps = max(1, ceil(sqrt(inputs * abs(curvature) / (4 * tolerance))))
    knots = np.linspace(0, 1, steps + 1)
    values = curvature * (knots[:, None] - centre) ** 2
    net = along_axes(values, error=inputs * abs(curvature) / (4 * steps**2), proven=True)
    return replace(net, constant=net.constant + constant)


def along_axes(values: Float[np.ndarray, "knots inputs *output"], *, error: float, proven: bool) -> Shallow:
    """Σ_j g_j(x_j), each g_j a straight line between its values at equally spaced knots of [0, 1]."""
    values = values.reshape(*values.shape[:2], -1)
    steps, inputs = values.shape[0] - 1, values.shape[1]
    slopes = np.diff(values, axis=0) * steps
    bends = np.concatenate([slopes[:1], np.diff(slopes, axis=0)])
    return Shallow(
        inner=np.repeat(np.eye(inputs), steps, axis=0),
        offset=np.tile(-np.arange(steps) / steps, inputs),
        outer=bends.transpose(2, 1, 0).reshape(values.shape[2], -1),
        constant=values[0].sum(axis=0),
        error=error,
        proven=proven,
    )


def additive(
    function: Callable[[Points], Float[np.ndarray, "points output"]], inputs: int, tolerance: float
) -> Shallow:
    """A sum of functions of one coordinate each, by knots: doubled until a fine look finds them close enough.

    The departure is measured at 32 places between any two knots, along each axis.
    """
    origin = function(np.zeros((1, inputs)))

    def along(places: Float[np.ndarray, " places"]) -> Float[np.ndarray, "places inputs output"]:
        lines = places[:, None, None] * np.eye(inputs)
        return function(lines.reshape(-1, inputs)).reshape(len(places), inputs, -1) - origin

    steps = 1
    while True:
        values, fine = along(np.linspace(0, 1, steps + 1)), along(np.linspace(0, 1, 32 * steps + 1))
        weight = (np.arange(32 * steps + 1) % 32 / 32)[:, None, None]
        left = np.minimum(np.arange(32 * steps + 1) // 32, steps - 1)
        chord = (1 - weight) * values[left] + weight * values[left + 1]
        chord[-1] = values[-1]
        error = float(np.abs(chord - fine).max(axis=0).sum(axis=0).max())
        if error <= tolerance:
            net = along_axes(values, error=error, proven=False)
            return replace(net, constant=net.constant + origin[0])
        if steps >= MOST_KNOTS:
            raise OutOfReach(tolerance, error, f"more than {MOST_KNOTS} knots an axis would be needed")
        steps *= 2
