"""The largest value of a function on the unit cube, looked for everywhere, then more and more closely."""

import itertools
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

Points = Float[np.ndarray, "points inputs"]
Heights = Callable[[Points], Float[np.ndarray, " points"]]

HEADROOM = 1.1  # what is found to be the largest counts for this much more: it is found, not proven
_CLOUD = 1 << 14
_LEADERS = 32
_ROUNDS = 8
_MOST_CORNERS = 4096


def cloud(inputs: int, seed: int, count: int = _CLOUD) -> Points:
    """Random points of the cube, a grid where it is small enough, and the corners."""
    random = np.random.default_rng(seed)
    scattered = random.uniform(size=(count, inputs))
    edges = np.where(random.uniform(size=scattered.shape) < 0.3, scattered.round(), scattered)
    side = max(2, int(count ** (1 / inputs)))
    grid = itertools.islice(itertools.product(np.linspace(0, 1, side), repeat=inputs), count)
    corners = itertools.islice(itertools.product((0.0, 1.0), repeat=inputs), _MOST_CORNERS)
    return np.concatenate([scattered, edges, np.asarray(list(grid)), np.asarray(list(corners))])


def largest(heights: Heights, *, inputs: int, seed: int = 0) -> float:
    """Max heights(x) over [0,1]^inputs: a cloud of points first, then ever smaller clouds around its leaders.

    A lower estimate of the true maximum: a peak narrower than the gaps of the cloud can be missed.

    >>> round(largest(lambda x: 1 - ((x - 0.3) ** 2).sum(axis=1), inputs=2), 6)
    1.0
    """
    random = np.random.default_rng(seed)
    points = cloud(inputs, seed)
    values = heights(points)
    leaders = points[np.argsort(values)[-_LEADERS:]]
    best, radius = float(np.max(values)), 4 * _CLOUD ** (-1 / inputs)
    for _ in range(_ROUNDS):
        moves = random.uniform(-radius, radius, size=(_CLOUD // _LEADERS, *leaders.shape))
        points = np.clip(leaders + moves, 0, 1).reshape(-1, inputs)
        values = heights(points)
        leaders = np.concatenate([leaders[-1:], points[np.argsort(values)[-_LEADERS + 1 :]]])
        best, radius = max(best, float(np.max(values))), radius / 3
    return best
