"""A polynomial that is nowhere far from a function: least squares, and its worst points again and again."""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.linalg import cho_factor, cho_solve

from headcount.errors import InvalidInput
from headcount.theory.search import climbs
from headcount.validation import shown


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


Function = Callable[[Float[Array, " variables"]], Float[Array, ""]]
Points = Float[np.ndarray, "points variables"]

ROUNDS = 16
_MIN_POINTS, _POINTS_PER_MONOMIAL = 500, 3
_MIN_CLIMBS, _MAX_CLIMBS = 256, 768
_STEPS = np.geomspace(0.2, 1e-3, 20)  # of the cube's edge: near a worst point is good enough
_MASS = 0.1  # of a round's worst points, next to 1 for all points of the first fit
_ROWS = 2048  # of the design matrix at a time: it is never whole in memory
_RIDGE = 1e-12
_EXACT = 1e-11  # of the largest value: rounding, not departure


def fit(function: Function, *, variables: int, degree: int, seed: int) -> Polynomial:
    """Min over p of max |p − f| on [0,1]^variables, approximately and in float64.

    Least squares alone is close in the mean and may be far off in a corner. So the points at which it is
    furthest off are looked for and added to the equations, again and again: a point that stays bad gains
    weight until it counts. Of all rounds the polynomial with the smallest departure found is kept.

    >>> square = fit(lambda u: u[0] ** 2 - u[1], variables=2, degree=2, seed=0)
    >>> bool(abs(square(jnp.array([0.5, 0.25]))) < 1e-6)
    True
    """
    basis = Basis(variables, degree)
    random = np.random.default_rng(seed)
    size = len(basis.pairs[0])
    count = min(max(_MIN_CLIMBS, size // 2), _MAX_CLIMBS)
    with jax.enable_x64(True):
        equations = _Equations(basis, function)
        points = spread(random, max(_MIN_POINTS, _POINTS_PER_MONOMIAL * size), variables)
        equations.add(points, np.full(len(points), 1 / len(points)))
        best, smallest = np.zeros(basis.shape), np.inf
        for _ in range(ROUNDS):
            coefficients = equations.solution()
            departures, places = map(
                np.asarray, _worst(basis, function, coefficients, spread(random, count, variables))
            )
            if departures.max() < smallest:
                best, smallest = coefficients, float(departures.max())
            if smallest <= _EXACT * equations.largest:
                break
            equations.add(places, _MASS * departures**2 / np.sum(departures**2))
    return Polynomial(basis, best)


def spread(random: np.random.Generator, count: int, variables: int) -> Points:
    """Points of the cube: half of them crowd towards its faces, the others also lie on faces of every size.

    The density of the first, ∝ 1 / sqrt(u (1 − u)) in each entry, is the one at which Chebyshev polynomials
    are orthogonal. In many dimensions it hardly ever comes near a corner, where a polynomial swings most.
    """
    points: Points = (1 - np.cos(np.pi * random.uniform(size=(count, variables)))) / 2
    share = np.where(np.arange(count) < count // 2, 0.0, random.uniform(size=count))
    on_face = random.uniform(size=points.shape) < share[:, None]
    return np.where(on_face, points.round(), points)


@dataclass(eq=False)
class _Equations:
    """The normal equations of weighted least squares, to which points are added."""

    basis: Basis
    function: Function
    largest: float = 0.0
    gram: Float[np.ndarray, "monomials monomials"] = field(init=False)
    moments: Float[np.ndarray, " monomials"] = field(init=False)

    def __post_init__(self) -> None:
        size = len(self.basis.pairs[0])
        self.gram, self.moments = _RIDGE * np.eye(size), np.zeros(size)

    def add(self, points: Points, weights: Float[np.ndarray, " points"]) -> None:
        rows, columns = self.basis.pairs
        for start in range(0, len(points), _ROWS):
            chunk, root = points[start : start + _ROWS], np.sqrt(weights[start : start + _ROWS])
            left, right = (np.asarray(half) for half in _features(self.basis, chunk))
            values = _finite(np.asarray(_values(self.function, chunk)), chunk)
            self.largest = max(self.largest, float(np.abs(values).max()))
            design = left[:, rows] * right[:, columns] * root[:, None]
            self.gram += design.T @ design
            self.moments += design.T @ (root * values)

    def solution(self) -> Float[np.ndarray, "left right"]:
        coefficients = np.zeros(self.basis.shape)
        coefficients[self.basis.pairs] = cho_solve(cho_factor(self.gram), self.moments)
        return coefficients


@partial(jax.jit, static_argnums=0)
def _features(basis: Basis, points: Float[Array, "points variables"]) -> tuple[Array, Array]:
    return jax.vmap(basis)(points)


@partial(jax.jit, static_argnums=0)
def _values(function: Function, points: Float[Array, "points variables"]) -> Float[Array, " points"]:
    return jax.vmap(function)(points)


@partial(jax.jit, static_argnums=(0, 1))
def _worst(
    basis: Basis,
    function: Function,
    coefficients: Float[Array, "left right"],
    starts: Float[Array, "starts variables"],
) -> tuple[Array, Array]:
    def departure(u: Float[Array, " variables"]) -> Float[Array, ""]:
        return jnp.abs(basis.sum(coefficients, u) - function(u))

    return climbs(departure, starts, _STEPS)


def _finite(values: Float[np.ndarray, " points"], points: Points) -> Float[np.ndarray, " points"]:
    for place in np.flatnonzero(~np.isfinite(values))[:1]:
        raise InvalidInput(
            f"target: expected a finite number everywhere in [0, 1], got {values[place]} at "
            f"x = {shown(points[place].round(3).tolist())}"
        )
    return values
