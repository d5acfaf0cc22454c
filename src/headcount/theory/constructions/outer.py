"""F_0 on the unit cube of rescaled coordinates: how steep it is, and as a network."""

from collections.abc import Sequence
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.coordinates import Coordinate
from headcount.theory.constructions.shallow import Shallow, evaluated, linear
from headcount.theory.constructions.structure import network_of
from headcount.theory.search import HEADROOM, cloud, largest

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
