"""Polynomials of bounded total degree on the unit cube, fitted to a function."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg import cho_factor, cho_solve

Function = Callable[[Float[Array, " variables"]], Float[Array, ""]]

SAMPLES_PER_MONOMIAL = 6
_FEWEST_SAMPLES = 500
_ROWS = 2048  # of the design matrix at a time: it is never whole in memory


def monomials(*, variables: int, degree: int) -> int:
    """C(v + p, p): the number of monomials in v variables of total degree at most p.

    >>> monomials(variables=8, degree=6)
    3003
    """
    return math.comb(variables + degree, degree)


@dataclass(frozen=True, eq=False)
class Polynomial:
    """p(u) = sum_{|α| + |β| ≤ p} c_{αβ} T_α(left half of u) T_β(right half of u), u in [0,1]^v.

    T_α is the product of Chebyshev polynomials of the entries of 2u − 1. Two halves make it a product
    with one matrix in the middle, which is far less work than one monomial after another.

    >>> square = fit(lambda u: u[0] ** 2 - u[1], variables=2, degree=2, seed=0)
    >>> bool(abs(square(np.array([0.5, 0.25]))) < 1e-6)
    True
    """

    variables: int
    degree: int
    coefficients: Float[np.ndarray, "left right"]

    def __call__(self, u: Float[Array, " variables"]) -> Float[Array, ""]:
        """p(u), in the precision of u."""
        left, right = self.halves(jnp.asarray(u))
        return left @ jnp.asarray(self.coefficients, left.dtype) @ right

    def halves(self, u: Float[Array, " variables"]) -> tuple[Float[Array, " left"], Float[Array, " right"]]:
        """(T_α)_α of the left half and (T_β)_β of the right one."""
        entries = 2 * u - 1
        powers = [jnp.ones_like(entries), entries]
        for _ in range(2, self.degree + 1):
            powers.append(2 * entries * powers[-1] - powers[-2])
        # Orthonormal where samples crowd as they do in `fit`, so that its equations are well conditioned.
        table = jnp.stack([powers[0], *(math.sqrt(2) * power for power in powers[1:])], axis=-1)
        left, right = self._exponents
        return _products(table[: left.shape[1]], left), _products(table[left.shape[1] :], right)

    @cached_property
    def _exponents(self) -> tuple[Int[np.ndarray, "left half"], Int[np.ndarray, "right other_half"]]:
        half = self.variables // 2
        return exponents(half, self.degree), exponents(self.variables - half, self.degree)

    @cached_property
    def pairs(self) -> tuple[Int[np.ndarray, " monomials"], Int[np.ndarray, " monomials"]]:
        """(α, β) with |α| + |β| ≤ p, as rows and columns of the coefficients."""
        left, right = (halves.sum(axis=1) for halves in self._exponents)
        rows, columns = np.nonzero(left[:, None] + right[None, :] <= self.degree)
        return rows, columns


def exponents(variables: int, degree: int) -> Int[np.ndarray, "monomials variables"]:
    """Every α with |α| ≤ p, row by row.

    >>> exponents(2, 1).tolist()
    [[0, 0], [0, 1], [1, 0]]
    """
    rows: list[tuple[int, ...]] = [()]
    for _ in range(variables):
        rows = [(*row, power) for row in rows for power in range(degree - sum(row) + 1)]
    return np.asarray(rows, dtype=np.int64).reshape(len(rows), variables)


def fit(function: Function, *, variables: int, degree: int, seed: int) -> Polynomial:
    """Least squares over random points of the cube, in float64.

    The points crowd towards the faces, as the zeros of Chebyshev polynomials do: there a polynomial
    swings most, and the largest error is looked at in the end, not the mean one. Several points per
    monomial keep what the polynomial cannot follow from being taken for something that it can.
    """
    with jax.enable_x64(True):
        shape = Polynomial(variables, degree, np.zeros(0))
        rows, columns = shape.pairs
        count = max(_FEWEST_SAMPLES, SAMPLES_PER_MONOMIAL * len(rows))
        points = crowded(np.random.default_rng(seed), (count, variables))
        halves = jax.jit(jax.vmap(shape.halves))
        values = jax.jit(jax.vmap(function))
        gram, moments = np.zeros((len(rows), len(rows))), np.zeros(len(rows))
        for start in range(0, count, _ROWS):
            chunk = points[start : start + _ROWS]
            left, right = (np.asarray(half) for half in halves(chunk))
            design = left[:, rows] * right[:, columns]
            gram += design.T @ design
            moments += design.T @ np.asarray(values(chunk))
        coefficients = np.zeros(tuple(len(half) for half in shape._exponents))
        coefficients[rows, columns] = cho_solve(cho_factor(gram, overwrite_a=True), moments)
    return Polynomial(variables, degree, coefficients)


def crowded(random: np.random.Generator, shape: tuple[int, ...]) -> Float[np.ndarray, "..."]:
    """Points of the cube with the density ∝ 1 / sqrt(u (1 − u)) in each entry."""
    return (1 - np.cos(np.pi * random.uniform(size=shape))) / 2


def _products(
    table: Float[Array, "variables powers"], exponents: Int[np.ndarray, "monomials variables"]
) -> Float[Array, " monomials"]:
    products = jnp.ones(len(exponents), table.dtype)
    for powers, chosen in zip(table, exponents.T, strict=True):
        # A product with a matrix of zeros and ones: its gradient is one too, where that of indexing is slow.
        products *= powers @ jnp.asarray(np.eye(table.shape[1])[:, chosen], table.dtype)
    return products
