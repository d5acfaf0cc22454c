"""Polynomials of bounded total degree on the unit cube, and how one is written down."""

import math
from dataclasses import dataclass
from functools import cached_property

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int


def monomials(*, variables: int, degree: int) -> int:
    """C(v + p, p): the number of monomials in v variables of total degree at most p.

    >>> monomials(variables=8, degree=6)
    3003
    """
    return math.comb(variables + degree, degree)


def exponents(variables: int, degree: int) -> Int[np.ndarray, "monomials variables"]:
    """Every α with |α| ≤ p, row by row.

    >>> exponents(2, 1).tolist()
    [[0, 0], [0, 1], [1, 0]]
    """
    rows: list[tuple[int, ...]] = [()]
    for _ in range(variables):
        rows = [(*row, power) for row in rows for power in range(degree - sum(row) + 1)]
    return np.asarray(rows, dtype=np.int64).reshape(len(rows), variables)


@dataclass(frozen=True)
class Basis:
    """T_α(u) T_β(v) with |α| + |β| ≤ p, for the halves u and v of a point of [0,1]^variables.

    T_α is the product of the Chebyshev polynomials of degrees α_i, of 2u_i − 1, each of mean square 1 where
    points crowd towards the faces as `crowded` ones do. In two halves a polynomial is a product with one
    matrix in the middle, which is far less work than one monomial after another.

    >>> Basis(variables=8, degree=6).shape, len(Basis(variables=8, degree=6).pairs[0])
    ((210, 210), 3003)
    """

    variables: int
    degree: int

    @cached_property
    def halves(self) -> tuple[Int[np.ndarray, "left half"], Int[np.ndarray, "right other_half"]]:
        """The exponents α and β, row by row."""
        half = self.variables // 2
        return exponents(half, self.degree), exponents(self.variables - half, self.degree)

    @property
    def shape(self) -> tuple[int, int]:
        """(left, right): how many α and how many β there are."""
        left, right = self.halves
        return len(left), len(right)

    @cached_property
    def pairs(self) -> tuple[Int[np.ndarray, " monomials"], Int[np.ndarray, " monomials"]]:
        """The (α, β) with |α| + |β| ≤ p, as rows and columns."""
        left, right = (half.sum(axis=1) for half in self.halves)
        rows, columns = np.nonzero(left[:, None] + right[None, :] <= self.degree)
        return rows, columns

    def sum(
        self,
        coefficients: Float[np.ndarray, "left right"] | Float[Array, "left right"],
        u: Float[Array, " variables"],
    ) -> Float[Array, ""]:
        """The polynomial with these coefficients at u, in the precision of u."""
        left, right = self(u)
        return left @ jnp.asarray(coefficients, left.dtype) @ right

    def __call__(self, u: Float[Array, " variables"]) -> tuple[Float[Array, " left"], Float[Array, " right"]]:
        """All T_α and all T_β at one point, in its precision."""
        entries = 2 * u - 1
        powers = [jnp.ones_like(entries), entries]
        for _ in range(2, self.degree + 1):
            powers.append(2 * entries * powers[-1] - powers[-2])
        table = jnp.stack([powers[0], *(math.sqrt(2) * power for power in powers[1:])], axis=-1)
        left, right = self.halves
        return _products(table[: left.shape[1]], left), _products(table[left.shape[1] :], right)


@dataclass(frozen=True, eq=False)
class Polynomial:
    """p(u, v) = sum c_{αβ} T_α(u) T_β(v), a function of one point of [0,1]^variables.

    >>> constant = Polynomial(Basis(variables=2, degree=1), np.array([[3.0, 0.0], [0.0, 0.0]]))
    >>> float(constant(jnp.array([0.2, 0.7])))
    3.0
    """

    basis: Basis
    coefficients: Float[np.ndarray, "left right"]

    def __call__(self, u: Float[Array, " variables"]) -> Float[Array, ""]:
        """p(u), in the precision of u."""
        return self.basis.sum(self.coefficients, u)


def _products(
    table: Float[Array, "variables powers"], exponents: Int[np.ndarray, "monomials variables"]
) -> Float[Array, " monomials"]:
    products = jnp.ones(len(exponents), table.dtype)
    for powers, chosen in zip(table, exponents.T, strict=True):
        # A product with zeros and ones: its gradient is a product too, where that of indexing is slow.
        products *= powers @ jnp.asarray(np.eye(table.shape[1])[:, chosen], table.dtype)
    return products
