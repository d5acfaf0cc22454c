"""The coordinates of a task on the unit cube as values in [0, 1] that take a min, and as networks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.tasks.library import Bowl, Projection
from headcount.tasks.retrieval import CoordinateFunction, Extremum, RetrievalTask
from headcount.theory.constructions.shallow import Shallow, evaluated, linear, non_negative, parabolas
from headcount.theory.constructions.structure import network_of
from headcount.theory.search import HEADROOM, cloud, largest, minima

_CONSTANT = 1e-12  # a spread below this, relative to the function's size, is rounding


@dataclass(frozen=True)
class Coordinate:
    """psi = (f − low) / (high − low), or its mirror image for a max: in [0, 1], and always a min."""

    function: CoordinateFunction
    extremum: Extremum
    token_dim: int
    low: float
    high: float

    @property
    def span(self) -> float:
        """How far f reaches on the cube; 1 for a constant, whose psi is 0."""
        return self.high - self.low or 1.0

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
        return network_of(self.psi, self.token_dim, tolerance, seed=seed)


def coordinates_of(task: RetrievalTask, *, seed: int = 0) -> tuple[Coordinate, ...]:
    """Every coordinate with its range on the unit cube.

    >>> from headcount.tasks.library import extremes
    >>> [(c.extremum, c.low, c.high) for c in coordinates_of(extremes())]
    [('max', 0.0, 1.0), ('min', 0.0, 1.0)]
    """
    pairs = zip(task.coordinate_functions, task.extrema, strict=True)
    return tuple(
        Coordinate(function, extremum, task.token_dim, *_range(function, index, task.token_dim, seed))
        for index, (function, extremum) in enumerate(pairs)
    )


def _range(function: CoordinateFunction, index: int, token_dim: int, seed: int) -> tuple[float, float]:
    if isinstance(function, Projection):
        return (
            float(sum(min(entry, 0.0) for entry in function.direction)),
            float(sum(max(entry, 0.0) for entry in function.direction)),
        )
    if isinstance(function, Bowl):
        farthest = sum(max(entry, 1 - entry) ** 2 for entry in function.well)
        nearest = sum((entry - min(max(entry, 0.0), 1.0)) ** 2 for entry in function.well)
        return nearest / farthest, 1.0

    def both_ways(token: Float[Array, " token_dim"]) -> Float[Array, "2"]:
        value = function(token)
        return jnp.stack([value, -value])

    lowest, highest = minima(both_ways, inputs=token_dim, seed=seed)
    if not lowest.all_finite:
        raise InvalidInput(
            f"coordinate function {index} is not finite everywhere on [0,1]^{token_dim}: "
            "finite values are needed there"
        )
    # Descents may all pass by a narrow dip; the cloud that networks are measured on must not see beyond.
    with jax.enable_x64(True):
        seen = np.asarray(jax.vmap(function)(jnp.asarray(cloud(token_dim, seed), jnp.float64)))
    low, high = min(lowest.value, float(seen.min())), max(-highest.value, float(seen.max()))
    return (low, low) if high - low <= _CONSTANT * max(abs(low), abs(high)) else (low, high)


_RESOLUTION = 1e-12


class Outer:
    """F_0 as a function of psi_1, ..., psi_D in [0, 1]."""

    def __init__(self, task: RetrievalTask, coordinates: Sequence[Coordinate]) -> None:
        self.start = np.array([coordinate.start for coordinate in coordinates])
        self.slope = np.array([coordinate.slope for coordinate in coordinates])
        self.dimension = task.dimension
        self.is_sum = task.outer is jnp.sum

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

    @cached_property
    def resolution(self) -> float:
        """The smallest difference that float64 resolves in sums as large as F_0 and its steepness."""
        values = evaluated(self, cloud(self.dimension, 0))
        if not np.isfinite(values).all():
            raise InvalidInput("F_0: expected finite values everywhere, got an infinite or undefined one")
        return max(_RESOLUTION * max(float(np.abs(values).max()), self.steepness), 1e-280)

    def network(self, tolerance: float, *, seed: int = 0) -> Shallow:
        """F_0 as a one-hidden-layer network: exact for a sum, otherwise as its structure allows."""
        if self.is_sum:
            return linear(self.slope[None], self.start.sum(keepdims=True))
        return network_of(self, self.dimension, tolerance, seed=seed)
