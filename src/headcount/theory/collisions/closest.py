"""Close pairs among very many points of many dimensions: sort along random directions, look at neighbours."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


class ClosePairs(NamedTuple):
    """Index pairs, the closest first, and their distances."""

    first: Int[np.ndarray, " pair"]
    second: Int[np.ndarray, " pair"]
    distance: Float[np.ndarray, " pair"]


def close_pairs(
    points: Float[np.ndarray, "point axis"],
    *,
    keep: int = 64,
    directions: int = 8,
    neighbours: int = 3,
    seed: int = 0,
) -> ClosePairs:
    """Up to `keep` of the closest pairs that share a neighbourhood along some direction.

    Two close points are neighbours along most directions; two neighbours along one direction need not be
    close. So the answer is an upper estimate of the smallest distance, at a cost of n log n in any dimension,
    where a tree of boxes would visit nearly every point.

    >>> points = np.array([[0.0, 0.0], [5.0, 5.0], [0.1, 0.0], [9.0, 0.0]])
    >>> found = close_pairs(points, keep=1)
    >>> found.first, found.second, found.distance
    (array([0]), array([2]), array([0.1]))
    """
    random = np.random.default_rng(seed)
    count = len(points)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for direction in random.normal(size=(directions, points.shape[1])):
        order = np.argsort(points @ direction)
        sorted_points = points[order]
        for step in range(1, min(neighbours, count - 1) + 1):
            squares = _squared_distances(sorted_points, step)
            nearest = _smallest(squares, keep)
            pair = np.sort(np.stack([order[nearest], order[nearest + step]]), axis=0)
            found.append((pair[0], pair[1], np.sqrt(squares[nearest])))
    first, second, distance = (np.concatenate(part) for part in zip(*found, strict=True))
    _, unique = np.unique(first * count + second, return_index=True)
    best = unique[np.argsort(distance[unique], kind="stable")[:keep]]
    return ClosePairs(first[best], second[best], distance[best])


def _squared_distances(points: Float[np.ndarray, "point axis"], step: int) -> Float[np.ndarray, " pair"]:
    """|p_k − p_{k+step}|² for every k, a slice at a time so that differences stay in cache."""
    squares = np.empty(len(points) - step)
    for begin in range(0, len(squares), 1 << 14):
        end = min(begin + (1 << 14), len(squares))
        difference = points[begin + step : end + step] - points[begin:end]
        squares[begin:end] = np.einsum("ij,ij->i", difference, difference)
    return squares


def _smallest(values: Float[np.ndarray, " value"], keep: int) -> Int[np.ndarray, " place"]:
    keep = min(keep, len(values))
    return np.argpartition(values, keep - 1)[:keep]
