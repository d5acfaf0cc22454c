"""One-hidden-layer networks for functions without structure: fitted, and grown until close enough."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from headcount.theory.constructions.shallow import (
    Function,
    OutOfReach,
    Points,
    Shallow,
    evaluated,
    everywhere,
)
from headcount.theory.search import HEADROOM, cloud

MAX_UNITS = 2048
_POINTS = 1 << 13
_FEW = 8  # points a unit: too few to trust a fit, enough to see that a width will not do
_RIDGE = 1e-9


def fit(function: Function, inputs: int, tolerance: float, *, seed: int = 0) -> Shallow:
    """A network whose largest measured departure from the function is below the tolerance.

    The kinks are drawn at random (their directions and places); only the outer weights are fitted, by least
    squares that weigh again what is still far off. That is a convex problem with one answer, so more units
    never end in a worse place. The width doubles until the largest departure on the cube is small enough.
    Points that were not fitted have their say in that.
    """
    points = cloud(inputs, seed, _POINTS)
    targets = evaluated(function, points)
    width, closest = 16, np.inf
    while width <= MAX_UNITS:
        some = slice(None, None, max(1, len(points) // (_FEW * width)))
        # On fewer points a fit looks better than it is, so a width that fails there fails.
        if (
            width == MAX_UNITS
            or HEADROOM * _fitted(targets[some], points[some], width, seed).error <= tolerance
        ):
            net = _fitted(targets, points, width, seed)
            net = everywhere(replace(net, error=HEADROOM * net.error), function, inputs, seed=seed + 1)
            if net.error <= tolerance:
                return net
            closest = min(closest, net.error)
        width *= 2
    raise OutOfReach(
        "tolerance", tolerance, closest, f"the widest network that is fitted has {MAX_UNITS} units"
    )


def _fitted(targets: Float[np.ndarray, "points output"], x: Points, width: int, seed: int) -> Shallow:
    random = np.random.default_rng(seed)
    directions = random.normal(size=(width, inputs := x.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    directions[: min(width, 2 * inputs)] = np.concatenate([np.eye(inputs), -np.eye(inputs)])[:width]
    # A kink passes through a random point of the cube; the first ones at its faces make up a linear part.
    through = random.uniform(size=(width, inputs))
    through[: min(width, inputs)] = 0.0
    offset = -np.sum(directions * through, axis=1)
    features = np.concatenate([np.maximum(x @ directions.T + offset, 0), np.ones((len(x), 1))], axis=1)
    weight = np.ones(len(x))
    best, best_error = None, np.inf
    for _ in range(6):
        root = np.sqrt(weight)[:, None]
        weighted = root * features
        gram = weighted.T @ weighted
        gram[np.diag_indices_from(gram)] += _RIDGE * np.trace(gram) / len(gram)
        outer = np.linalg.solve(gram, weighted.T @ (root * targets))
        departure = np.abs(features @ outer - targets).max(axis=1)
        if departure.max() < best_error:
            best, best_error = outer, departure.max()
        weight *= departure + 0.05 * departure.max()
        weight /= weight.mean()
    assert best is not None
    return Shallow(directions, offset, best[:-1].T, best[-1], error=best_error, proven=False)
