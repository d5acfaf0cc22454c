"""Directions and wells that keep a distance, drawn by seeded rejection."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headcount.errors import InvalidInput
from headcount.validation import Rows, check_integer, check_matrix, check_number, expected

Point = Float[np.ndarray, " token_dim"]
Points = Float[np.ndarray, "points token_dim"]
Separations = Float[np.ndarray, " points"]


def place_directions(
    choice: object, *, dimension: int, token_dim: int, smallest_angle: float, seed: int
) -> Rows:
    """a_1, ..., a_D: random unit vectors at least an angle (in degrees) apart, orthonormal, or given.

    Tokens from N(0, I) look the same after any rotation, so the first D axes stand for every
    orthonormal choice.

    >>> place_directions("orthonormal", dimension=2, token_dim=2, smallest_angle=30.0, seed=0)
    ((1.0, 0.0), (0.0, 1.0))
    """
    smallest = check_number("smallest_angle", smallest_angle, at_least=0.0, at_most=180.0)
    check_integer("seed", seed, at_least=0)
    if not isinstance(choice, str):
        given = check_matrix("directions", choice, rows=dimension, columns=token_dim)
        if not all(any(direction) for direction in given):
            raise expected("directions", "vectors other than zero", choice)
        return given
    if choice == "random":
        return _DIRECTIONS.place(dimension=dimension, token_dim=token_dim, smallest=smallest, seed=seed)
    if choice != "orthonormal":
        raise expected("directions", "random, orthonormal or a list of vectors", choice)
    if dimension > token_dim:
        raise expected("dimension", f"at most token_dim = {token_dim} for orthonormal directions", dimension)
    return _rows(np.eye(dimension, token_dim))


def place_wells(
    choice: object, *, dimension: int, token_dim: int, smallest_distance: float, seed: int
) -> Rows:
    """w_1, ..., w_D in the unit cube: random points at least a distance apart, or given.

    >>> place_wells([[0.25], [0.75]], dimension=2, token_dim=1, smallest_distance=0.2, seed=0)
    ((0.25,), (0.75,))
    """
    diagonal = float(token_dim) ** 0.5
    smallest = check_number("smallest_distance", smallest_distance, at_least=0.0, at_most=diagonal)
    check_integer("seed", seed, at_least=0)
    if not isinstance(choice, str):
        given = check_matrix("wells", choice, rows=dimension, columns=token_dim)
        if not all(0 <= entry <= 1 for well in given for entry in well):
            raise expected("wells", "entries from 0 to 1", choice)
        return given
    if choice == "random":
        return _WELLS.place(dimension=dimension, token_dim=token_dim, smallest=smallest, seed=seed)
    raise expected("wells", "random or a list of points", choice)


@dataclass(frozen=True)
class _Scatter:
    """Draw points one by one; keep each that is far enough from all kept before."""

    option: str
    draw: Callable[[np.random.Generator, tuple[int, int]], Points]
    separations: Callable[[Points, Point], Separations]
    candidates: int = 256
    restarts: int = 64

    def place(self, *, dimension: int, token_dim: int, smallest: float, seed: int) -> Rows:
        """D points at least `smallest` apart; if none are found, the error names a value that works."""
        found = self._search(dimension, token_dim, smallest, seed)
        if found is not None:
            return _rows(found)
        # Rounded, so that a user who passes the value back gets the same points.
        possible = smallest
        while self._search(dimension, token_dim, possible, seed) is None:
            possible = round(0.95 * possible, 3) if possible > 0.01 else 0.0
        raise InvalidInput(
            f"{self.option}: expected at most {possible:g} for dimension {dimension} "
            f"and token_dim {token_dim}, got {smallest:g}"
        )

    def _search(self, dimension: int, token_dim: int, smallest: float, seed: int) -> Points | None:
        generator = np.random.default_rng(seed)
        for _ in range(self.restarts):
            points = self.draw(generator, (max(self.candidates, 8 * dimension), token_dim))
            kept = self._keep_apart(points, smallest, dimension)
            if len(kept) == dimension:
                return points[kept]
        return None

    def _keep_apart(self, points: Points, smallest: float, count: int) -> list[int]:
        kept: list[int] = []
        free = np.ones(len(points), dtype=bool)
        while free.any() and len(kept) < count:
            kept.append(int(np.argmax(free)))
            free &= self.separations(points, points[kept[-1]]) >= smallest
            free[kept[-1]] = False
        return kept


def _unit_vectors(generator: np.random.Generator, shape: tuple[int, int]) -> Points:
    vectors = generator.standard_normal(shape)
    return np.divide(vectors, np.linalg.norm(vectors, axis=-1, keepdims=True))


def _inside_the_cube(generator: np.random.Generator, shape: tuple[int, int]) -> Points:
    # A margin to the faces leaves room on all sides of every well.
    return generator.uniform(0.1, 0.9, shape)


def _angles(points: Points, point: Point) -> Separations:
    angles: Separations = np.degrees(np.arccos(np.clip(points @ point, -1, 1)))
    return angles


def _distances(points: Points, point: Point) -> Separations:
    distances: Separations = np.linalg.norm(points - point, axis=-1)
    return distances


def _rows(points: Points) -> Rows:
    return tuple(tuple(float(entry) for entry in point) for point in points)


_DIRECTIONS = _Scatter("smallest_angle", _unit_vectors, _angles)
_WELLS = _Scatter("smallest_distance", _inside_the_cube, _distances)
