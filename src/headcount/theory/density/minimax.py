"""A polynomial that is nowhere far from a function: least squares, and its worst points again and again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import cho_factor, cho_solve

from headcount.errors import InvalidInput
from headcount.theory.density.polynomial import Basis, Polynomial
from headcount.theory.search import climbs
from headcount.validation import shown

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
