"""The coordinate functions f_i of the named tasks: small frozen functions of one token.

Both sum products elementwise: a matrix product of float32 may be rounded to fewer bits on some devices.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Projection:
    """f(x) = a·x: the extent of a token in one direction.

    >>> Projection((1.0, -2.0))(jnp.array([3.0, 1.0]))
    Array(1., dtype=float32)
    """

    direction: tuple[float, ...]

    def __call__(self, token: Float[Array, " token_dim"]) -> Float[Array, ""]:
        """f(token), in the precision of the token."""
        return jnp.sum(jnp.asarray(self.direction, token.dtype) * token)


@dataclass(frozen=True)
class Bowl:
    """f(x) = |x − w|² / max_{u in [0,1]^d} |u − w|²: how far a token is from a well w.

    The cube's farthest point from w is a corner, one coordinate at a time, so f fills [0, 1] exactly.
    Inside the cube w is the only minimiser, and the Hessian there is a positive multiple of the identity.

    >>> Bowl((0.5, 0.5))(jnp.array([0.5, 0.0]))
    Array(0.5, dtype=float32)
    """

    well: tuple[float, ...]

    def __call__(self, token: Float[Array, " token_dim"]) -> Float[Array, ""]:
        """f(token), in the precision of the token."""
        farthest = sum(max(entry, 1 - entry) ** 2 for entry in self.well)
        return jnp.sum((token - jnp.asarray(self.well, token.dtype)) ** 2) / farthest
