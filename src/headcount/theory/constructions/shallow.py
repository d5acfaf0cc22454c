"""One-hidden-layer ReLU networks with a known error: built from knots where a function allows it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil, floor, log10, sqrt
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.theory.search import HEADROOM, largest, looked_at

Points = Float[np.ndarray, "points inputs"]
Function = Callable[[Float[Array, "points inputs"]], Float[Array, "points output"]]

Built = TypeVar("Built")

MAX_KNOTS = 1 << 14
_FEATURES = 1 << 23  # at once: 64 MiB
_LOOKS = 4096  # places along an axis at which knots are compared with the function first


def evaluated(function: Function, x: Points) -> Float[np.ndarray, "points output"]:
    """A JAX function of many points, in float64."""
    with jax.enable_x64(True):
        return np.asarray(function(jnp.asarray(x, jnp.float64)), np.float64)


class OutOfReach(InvalidInput):
    """A tolerance that nothing within the limits meets; `possible` is the nearest one that can be met."""

    def __init__(self, name: str, wanted: float, possible: float, reason: str) -> None:
        super().__init__(
            f"{name} = {wanted:g}: {reason}; {name} = {rounded_up(possible):g} would be possible"
        )
        self.possible, self.reason = possible, reason


def rounded_up(value: float) -> float:
    """Two digits, never less than the value.

    >>> rounded_up(0.1234), rounded_up(5.0)
    (0.13, 5.0)
    """
    nearest = float(f"{value:.1e}")
    return nearest if nearest >= value else float(f"{value + 10.0 ** (floor(log10(value)) - 1):.1e}")


def within_reach(
    epsilon: float, builders: Iterable[tuple[Callable[[float], Built], float]], *, finest: float
) -> list[Built]:
    """Each builder's network to within its share of epsilon; or else the epsilon that all of them allow.

    No epsilon below `finest` is allowed either: the arithmetic itself is no closer than that.
    """
    built, missed = [], [OutOfReach("epsilon", epsilon, finest, "float64 resolves no finer steps")]
    for build, share in builders:
        try:
            built.append(build(epsilon * share))
        except OutOfReach as error:
            missed.append(OutOfReach("epsilon", epsilon, 1.001 * error.possible / share, error.reason))
    coarsest = max(missed, key=lambda miss: miss.possible)
    if epsilon < coarsest.possible:
        raise coarsest
    return built


@dataclass(frozen=True, eq=False)
class Shallow:
    """outer · relu(inner · x + offset) + constant on [0,1]^inputs, next to the function it stands for.

    `error` is how far the two are apart at most: derived where `points` is 0, otherwise the largest departure
    at that many points, enlarged. `inside` says whether no value leaves [0, 1].
    """

    inner: Float[np.ndarray, "unit inputs"]
    offset: Float[np.ndarray, " unit"]
    outer: Float[np.ndarray, "output unit"]
    constant: Float[np.ndarray, " output"]
    error: float
    points: int = 0
    inside: bool = False

    @property
    def units(self) -> int:
        """The width of the hidden layer."""
        return len(self.offset)

    def __call__(self, x: Points) -> Float[np.ndarray, "points output"]:
        """Its values, row by row; so many rows at a time that the features of all units stay small."""
        step = max(1, _FEATURES // self.units)
        parts = [
            np.maximum(x[start : start + step] @ self.inner.T + self.offset, 0) @ self.outer.T
            for start in range(0, len(x), step)
        ]
        return np.concatenate(parts) + self.constant if parts else np.zeros((0, len(self.constant)))


def linear(slopes: Float[np.ndarray, "output inputs"], constant: Float[np.ndarray, " output"]) -> Shallow:
    """Slopes · x + constant, exactly: on the cube every x_j is its own ReLU.

    >>> net = linear(np.array([[2.0, -1.0]]), np.array([3.0]))
    >>> net(np.array([[0.5, 1.0]])), net.error
    (array([[3.]]), 0.0)
    """
    inputs = slopes.shape[1]
    return Shallow(np.eye(inputs), np.zeros(inputs), slopes, constant, error=0.0)


def non_negative(slope: Float[np.ndarray, " inputs"], constant: float) -> Shallow:
    """Slope · x + constant where that lies in [0, 1] on the cube: a single unit."""
    ones = np.ones((1, 1))
    return Shallow(slope[None], np.array([constant]), ones, np.zeros(1), error=0.0, inside=True)


def parabolas(
    centre: Float[np.ndarray, " inputs"], curvature: float, constant: float, tolerance: float
) -> Shallow:
    """Curvature · |x − centre|² + constant by equal steps s along each axis.

    Between two knots a parabola a u² departs from its chord by at most |a| s² / 4, so the sum over the axes
    departs by at most inputs · |a| s² / 4. It is also the multilinear interpolation of the sum on a grid,
    a weighted mean of true values: it never leaves their range.

    >>> net = parabolas(np.array([0.5]), 4.0, 0.0, tolerance=0.01)
    >>> net.units, net.error <= 0.01, round(float(net(np.array([[1.0]]))[0, 0]), 9)
    (10, True, 1.0)
    """
    inputs = len(centre)
    finest = inputs * abs(curvature) / (4 * MAX_KNOTS**2)
    if tolerance < finest:
        raise OutOfReach("tolerance", tolerance, finest, _TOO_MANY)
    steps = max(1, ceil(sqrt(inputs * abs(curvature) / (4 * tolerance))))
    knots = np.linspace(0, 1, steps + 1)
    values = curvature * (knots[:, None] - centre) ** 2
    net = along_axes(values, error=inputs * abs(curvature) / (4 * steps**2))
    return replace(net, constant=net.constant + constant)


def along_axes(
    values: Float[np.ndarray, "knots inputs *output"], *, error: float, points: int = 0
) -> Shallow:
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
        points=points,
    )


def additive(function: Function, inputs: int, tolerance: float, *, places: Points | None = None) -> Shallow:
    """A sum of functions of one coordinate each, by knots: doubled until a fine look finds them close enough.

    The departure is measured along each axis, at 32 places or more between any two knots, and at `places`.
    Those of an axis are uneven: a function that repeats itself cannot hide between them. Knots that fail on
    a few of the places fail, so few are looked at until all of them can decide.
    """
    origin = evaluated(function, np.zeros((1, inputs)))[0]

    def along(places: Float[np.ndarray, " places"]) -> Float[np.ndarray, "places inputs output"]:
        return (
            np.stack([evaluated(function, places[:, None] * axis) for axis in np.eye(inputs)], axis=1)
            - origin
        )

    def departure(
        values: Float[np.ndarray, "knots inputs output"],
        looks: Float[np.ndarray, " places"],
        seen: Float[np.ndarray, "places inputs output"],
    ) -> float:
        steps = len(values) - 1
        left = np.minimum((looks * steps).astype(int), steps - 1)
        part = (looks * steps - left)[:, None, None]
        chord = (1 - part) * values[left] + part * values[left + 1]
        return float(np.abs(chord - seen).max(axis=0).sum(axis=0).max())

    count = max(32 * MAX_KNOTS // inputs, _LOOKS)
    all_looks = (np.arange(count) + np.random.default_rng(0).uniform(size=count)) / count
    all_seen = along(all_looks)
    steps = 1
    while True:
        values = along(np.linspace(0, 1, steps + 1))
        for stride in (max(1, count // max(32 * steps, _LOOKS)), 1):
            error = HEADROOM * departure(values, all_looks[::stride], all_seen[::stride])
            if error > tolerance:
                break
        else:
            net = along_axes(values, error=error, points=inputs * count)
            net = at_places(replace(net, constant=net.constant + origin), function, places)
            if net.error <= tolerance:
                return net
            error = net.error
        if steps >= MAX_KNOTS:
            raise OutOfReach("tolerance", tolerance, error, _TOO_MANY)
        steps *= 2


def at_places(net: Shallow, function: Function, places: Points | None) -> Shallow:
    """The network with its error raised to what is found at a few places."""
    if places is None or not len(places):
        return net
    found = HEADROOM * float(np.abs(net(places) - evaluated(function, places)).max())
    return replace(net, error=max(net.error, found), points=net.points + len(places))


def everywhere(net: Shallow, function: Function, inputs: int, *, seed: int = 0) -> Shallow:
    """The network with its error raised to what a search of the whole cube finds."""

    def departure(x: Float[Array, "points inputs"]) -> Float[Array, " points"]:
        values = jnp.maximum(x @ net.inner.T + net.offset, 0) @ net.outer.T + net.constant
        return jnp.abs(values - function(x)).max(axis=1)

    found = HEADROOM * largest(departure, inputs=inputs, seed=seed)
    return replace(net, error=max(net.error, found), points=net.points + looked_at(inputs))


_TOO_MANY = f"more than {MAX_KNOTS} knots an axis would be needed"
