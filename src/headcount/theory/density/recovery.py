"""A sequence from extrema over sets of positions: the smooth inside of the density theorem.

Why it works, and why the bound is what it is: docs/theory/density.md.
"""

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from headcount.tasks.library import Projection
from headcount.tasks.retrieval import Extremum, Positions


def set_size(length: int) -> int:
    """M = ceil(T / 4), the smallest set of positions that a retrieval may look at.

    >>> set_size(8), set_size(9)
    (2, 3)
    """
    return -(-length // 4)


def retrievals(*, length: int, token_dim: int) -> int:
    """D = 2 d C(T, m): the least and the largest entry of every m-set of positions, for each coordinate.

    >>> retrievals(length=8, token_dim=1), retrievals(length=8, token_dim=2)
    (56, 112)
    """
    return 2 * token_dim * math.comb(length, set_size(length))


@dataclass(frozen=True)
class Recovery:
    """x = Y + (Z − b)⁺, entry by entry, from the extrema over all m-sets of positions.

    Y = max_{U ∋ t} min_U x = min(x(t), b) with b = max_U min_U x the m-th largest entry, and
    Z = min_{U ∋ t} max_U x = max(x(t), a) with a the m-th smallest: what Y cuts off above b, Z still has.
    Here max, min and (·)⁺ are log-sum-exps of sharpness λ, and the result is pressed into (0, 1) by another.

    >>> recovery = Recovery(length=8, token_dim=1, sharpness=1e3)
    >>> x = jnp.array([[0.1], [0.9], [0.5], [0.7], [0.2], [0.3], [0.6], [0.8]])
    >>> bool(jnp.max(jnp.abs(recovery(recovery.extrema_of(x)) - x)) < recovery.bound)
    True
    """

    length: int
    token_dim: int
    sharpness: float

    @cached_property
    def sets(self) -> Int[np.ndarray, "sets positions"]:
        """Every U, row by row."""
        chosen = itertools.combinations(range(self.length), set_size(self.length))
        return np.asarray(list(chosen), dtype=np.int32)  # at home in both precisions

    @property
    def bound(self) -> float:
        """|recovered − x| ≤ log(C(T, m) + 1) / λ in every entry, for every x in [0,1]^{T×d}."""
        return math.log(len(self.sets) + 1) / self.sharpness

    @property
    def coordinate_functions(self) -> tuple[Projection, ...]:
        """f_i(x) = x_j: for each coordinate j, all least entries and then all largest."""
        unit = [tuple(float(i == j) for i in range(self.token_dim)) for j in range(self.token_dim)]
        return tuple(Projection(direction) for direction in unit for _ in range(2 * len(self.sets)))

    @property
    def positions(self) -> tuple[Positions, ...]:
        """S_i = U, in the order of the coordinate functions."""
        return tuple(Positions(chosen.tolist()) for chosen in self.sets) * (2 * self.token_dim)

    @property
    def extrema(self) -> tuple[Extremum, ...]:
        """Min or max, in the order of the coordinate functions."""
        both: tuple[Extremum, Extremum] = ("min", "max")
        return tuple(one for _ in range(self.token_dim) for one in both for _ in self.sets)

    def extrema_of(self, x: Float[Array, "length token_dim"]) -> Float[Array, " dimension"]:
        """All D retrievals at once; the task takes them one by one."""
        members = x[self.sets]
        return jnp.stack([jnp.min(members, axis=1), jnp.max(members, axis=1)]).transpose(2, 0, 1).ravel()

    def __call__(self, z: Float[Array, " dimension"]) -> Float[Array, "length token_dim"]:
        """The sequence, up to `bound`, in the precision of z."""
        least, largest = z.reshape(self.token_dim, 2, -1).transpose(1, 0, 2)
        Y = self._largest(least[:, self._sets_with])
        Z = -self._largest(-largest[:, self._sets_with])
        b = self._largest(least)[:, None]
        x = Y + self._positive_part(Z - b)
        return (self._positive_part(x) - self._positive_part(x - 1)).T

    @cached_property
    def _sets_with(self) -> Int[np.ndarray, "length sets_with"]:
        inside = (self.sets[None] == np.arange(self.length)[:, None, None]).any(axis=-1)
        return np.stack([np.flatnonzero(row) for row in inside]).astype(np.int32)

    def _largest(self, values: Float[Array, "*rest values"]) -> Float[Array, "*rest"]:
        return jax.nn.logsumexp(self.sharpness * values, axis=-1) / self.sharpness

    def _positive_part(self, values: Float[Array, "*rest"]) -> Float[Array, "*rest"]:
        return jax.nn.softplus(self.sharpness * values) / self.sharpness
