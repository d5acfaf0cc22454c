"""The coordinates of a task on the unit cube as values in [0, 1] that take a min, and as networks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.tasks.library import Bowl, Projection
from headcount.tasks.retrieval import CoordinateFunction, Extremum, RetrievalTask
from headcount.theory.constructions.shallow import Points, Shallow, evaluated, linear, non_negative, parabolas
from headcount.theory.constructions.structure import network_of
from headcount.theory.search import HEADROOM, cloud, largest, looked_at, minima

_LOOKS = 1 << 18  # points, three times, from the lowest of which f is followed down
_CONSTANT = 1e-12  # a spread below this, relative to the function's size, is rounding


@dataclass(frozen=True)
class Coordinate:
    """psi = (f − low) / (high − low), or its mirror image for a max: in [0, 1], and always a min.

    - `seen`: where f was found lowest and highest.
    - `ignored`: how far f reaches beyond `low` where that was taken for rounding.
    """

    function: CoordinateFunction
    extremum: Extremum
    token_dim: int
    low: float
    high: float
    seen: Points | None = field(default=None, compare=False, repr=False)
    ignored: float = 0.0

    @property
    def span(self) -> float:
        """How far f reaches on the cube; 1 for a constant, whose psi is 0."""
        return self.high - self.low or 1.0

    @property
    def size(self) -> float:
        """The largest number that f is computed from: the terms of a projection may exceed their sum."""
        if isinstance(self.function, Projection):
            return float(sum(map(abs, self.function.direction)))
        return max(abs(self.low), abs(self.high))

    @property
    def slope(self) -> float:
        """D f / d psi: what one unit of psi is worth."""
        return self.span if self.extremum == "min" else -self.span

    @property
    def start(self) -> float:
        """F where psi is 0."""
        return self.low if self.extremum == "min" else self.high

    @cached_property
    def _values(self) -> Callable[[Array], Array]:
        return jax.jit(jax.vmap(self.function))  # kept, so that it is compiled once

    def psi(self, x: Float[Array, "points inputs"]) -> Float[Array, "points one"]:
        """Psi at each point."""
        return (self._values(x)[:, None] - self.start) / self.slope

    def network(self, tolerance: float, *, seed: int = 0) -> Shallow:
        """Psi as a one-hidden-layer network: exact for a projection, by knots for a bowl."""
        function = self.function
        if isinstance(function, Projection):
            direction = np.asarray(function.direction, np.float64)
            return non_negative(direction / self.slope, -self.start / self.slope)
        if isinstance(function, Bowl):
            farthest = sum(max(entry, 1 - entry) ** 2 for entry in function.well)
            net = parabolas(
                np.asarray(function.well, np.float64),
                1 / farthest / self.slope,
                -self.start / self.slope,
                tolerance,
            )
            return replace(net, inside=True)
        return network_of(self.psi, self.token_dim, tolerance, seed=seed, places=self.seen)


def coordinates_of(task: RetrievalTask, *, seed: int = 0) -> tuple[Coordinate, ...]:
    """Every coordinate with its range on the unit cube.

    >>> from headcount.tasks.library import extremes
    >>> [(c.extremum, c.low, c.high) for c in coordinates_of(extremes())]
    [('max', 0.0, 1.0), ('min', 0.0, 1.0)]
    """
    pairs = zip(task.coordinate_functions, task.extrema, strict=True)
    return tuple(
        _coordinate(function, extremum, index, task.token_dim, seed)
        for index, (function, extremum) in enumerate(pairs)
    )


def _coordinate(
    function: CoordinateFunction, extremum: Extremum, index: int, token_dim: int, seed: int
) -> Coordinate:
    if isinstance(function, Projection):
        low = float(sum(min(entry, 0.0) for entry in function.direction))
        high = float(sum(max(entry, 0.0) for entry in function.direction))
        return Coordinate(function, extremum, token_dim, low, high)
    if isinstance(function, Bowl):
        farthest = sum(max(entry, 1 - entry) ** 2 for entry in function.well)
        nearest = sum((entry - min(max(entry, 0.0), 1.0)) ** 2 for entry in function.well)
        return Coordinate(function, extremum, token_dim, nearest / farthest, 1.0)

    def both_ways(token: Float[Array, " token_dim"]) -> Float[Array, "2"]:
        value = function(token)
        return jnp.stack([value, -value])

    lowest, highest = minima(both_ways, inputs=token_dim, seed=seed, count=_LOOKS)
    if not lowest.all_finite:
        raise InvalidInput(
            f"coordinate function {index} is not finite everywhere on [0,1]^{token_dim}: "
            "finite values are needed there"
        )
    low, high = lowest.value, -highest.value
    seen = np.stack([lowest.point, highest.point])
    if high - low <= _CONSTANT * max(abs(low), abs(high)):
        return Coordinate(function, extremum, token_dim, low, low, seen, ignored=high - low)
    return Coordinate(function, extremum, token_dim, low, high, seen)


_RESOLUTION = 1e-12


class Outer:
    """F_0 as a function of psi_1, ..., psi_D in [0, 1]."""

    def __init__(self, task: RetrievalTask, coordinates: Sequence[Coordinate]) -> None:
        self.start = np.array([coordinate.start for coordinate in coordinates])
        self.slope = np.array([coordinate.slope for coordinate in coordinates])
        self.dimension = task.dimension
        self.is_sum = task.outer is jnp.sum
        self.function = task.outer
        self._terms = sum(max(abs(each.low), abs(each.high)) for each in coordinates)

        def one(z: Float[Array, " dimension"]) -> Float[Array, " output"]:
            return jnp.ravel(task.outer(self.start + self.slope * z))

        self._values = jax.jit(jax.vmap(one))
        self._slopes = jax.jit(jax.vmap(jax.jacrev(one)))

    def __call__(self, z: Float[Array, "points dimension"]) -> Float[Array, "points output"]:
        """F_0, row by row."""
        return self._values(z)

    @cached_property
    def steepness(self) -> float:
        """L_0 = sup |grad F_0|_1, over all outputs: exact for a sum, otherwise found and enlarged."""
        if self.is_sum:
            return float(np.abs(self.slope).sum())

        def steep(z: Float[Array, "points dimension"]) -> Float[Array, " points"]:
            slopes = self._slopes(z)
            # At the tip of a cone there is no slope; those around it say how steep it is.
            return jnp.where(jnp.isnan(slopes), 0.0, jnp.abs(slopes)).sum(axis=2).max(axis=1)

        found = HEADROOM * largest(steep, inputs=self.dimension)
        if not np.isfinite(found):
            raise InvalidInput("F_0: expected finite derivatives, got an infinite one")
        return found

    @property
    def points(self) -> int:
        """At how many points its slope was measured; 0: it is known."""
        return 0 if self.is_sum else looked_at(self.dimension)

    @cached_property
    def size(self) -> float:
        """The largest number that F_0 is computed from: all terms of a sum, or the largest value seen."""
        return self._terms if self.is_sum else float(np.abs(self._seen).max())

    @cached_property
    def _seen(self) -> Float[np.ndarray, "points output"]:
        return evaluated(self, cloud(self.dimension, 0))

    @cached_property
    def resolution(self) -> float:
        """The smallest difference that float64 resolves in sums as large as F_0 and its steepness."""
        if not np.isfinite(self._seen).all():
            raise InvalidInput("F_0: expected finite values everywhere, got an infinite or undefined one")
        return max(_RESOLUTION * max(float(np.abs(self._seen).max()), self.steepness), 1e-280)

    def network(self, tolerance: float, *, seed: int = 0) -> Shallow:
        """F_0 as a one-hidden-layer network: exact for a sum, otherwise as its structure allows."""
        if self.is_sum:
            return linear(self.slope[None], self.start.sum(keepdims=True))
        return network_of(self, self.dimension, tolerance, seed=seed)
