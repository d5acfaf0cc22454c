"""Polynomials of bounded total degree on the unit cube, and how one is written down."""

import itertools
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
    """Every α with |α| ≤ p, row by row and the lowest |α| first.

    >>> exponents(2, 2).tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    rows = [
        np.bincount(np.asarray(chosen, dtype=np.int64), minlength=variables)
        for total in range(degree + 1)
        for chosen in itertools.combinations_with_replacement(range(variables), total)
    ]
    return np.stack(rows)


@dataclass(frozen=True)
class Basis:
    """T_α(u) T_β(v) with |α| + |β| ≤ p, for the halves u and v of a point of [0,1]^variables.

    T_α is the product of the Chebyshev polynomials of degrees α_i, of 2u_i − 1, each of mean square 1 where
    points crowd towards the faces as those of `spread` do. To the α of one degree belong the β up to
    another, so a polynomial is a few products with matrices: far less work than monomial after monomial.

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

    def __call__(self, u: Float[Array, " variables"]) -> tuple[Float[Array, " left"], Float[Array, " right"]]:
        """All T_α and all T_β at one point, in its precision."""
        entries = 2 * u - 1
        powers = [jnp.ones_like(entries), entries]
        for _ in range(2, self.degree + 1):
            powers.append(2 * entries * powers[-1] - powers[-2])
        table = math.sqrt(2) * jnp.stack(powers[1:], axis=-1)
        left, right = self.halves
        return _products(table[: left.shape[1]], left), _products(table[left.shape[1] :], right)

    def sum(
        self,
        coefficients: Float[np.ndarray, "left right"] | Float[Array, "left right"],
        u: Float[Array, " variables"],
    ) -> Float[Array, ""]:
        """The polynomial with these coefficients at u, in the precision of u."""
        left, right = self(u)
        coefficients = jnp.asarray(coefficients, left.dtype)
        of_left, of_right = (half.sum(axis=1) for half in self.halves)
        total = jnp.zeros((), left.dtype)
        for degree in np.unique(of_left):
            rows = slice(*np.searchsorted(of_left, (degree, degree + 1)))
            columns = slice(np.searchsorted(of_right, self.degree - degree + 1))
            total += left[rows] @ coefficients[rows, columns] @ right[columns]
        return total


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
    """The product of table[i, α_i − 1] over all α_i > 0, for each α."""
    factors = jnp.concatenate([jnp.ones(1, table.dtype), table.ravel()])
    degree = table.shape[1]
    chosen = np.zeros((len(exponents), degree), dtype=np.int64)  # a monomial has at most so many factors
    for row, powers in enumerate(exponents):
        (variables,) = np.nonzero(powers)
        chosen[row, : len(variables)] = 1 + variables * degree + powers[variables] - 1
    products = jnp.ones(len(exponents), table.dtype)
    for column in chosen.T:
        # A product with zeros and ones: its gradient is a product too, where that of indexing is slow.
        products *= factors @ jnp.asarray(np.eye(len(factors))[:, column], table.dtype)
    return products
