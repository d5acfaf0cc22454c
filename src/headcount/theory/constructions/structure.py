"""What a function on the unit cube is made of, and the network that this allows."""

from dataclasses import replace

import numpy as np
from jaxtyping import Float

from headcount.theory.constructions.shallow import (
    Function,
    OutOfReach,
    Points,
    Shallow,
    additive,
    at_places,
    evaluated,
    everywhere,
)
from headcount.theory.search import HEADROOM, cloud

MAX_UNITS = 2048
_POINTS = 1 << 13
_FEW = 8  # points a unit: too few to trust a fit, enough to see that a width will not do
_RIDGE = 1e-9


def fit(
    function: Function, inputs: int, tolerance: float, *, seed: int = 0, places: Points | None = None
) -> Shallow:
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
            net = at_places(replace(net, error=HEADROOM * net.error), function, places)
            net = everywhere(net, function, inputs, seed=seed + 1)
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
    return Shallow(directions, offset, best[:-1].T, best[-1], error=best_error, points=len(x))


_PARALLEL = 1e-5  # slopes that leave their common direction by less than this part agree
_STEP = 1e-4


def ridge(function: Function, inputs: int, tolerance: float) -> Shallow | None:
    """A function of one direction, g(w · x), by knots along it; None where there is no such direction.

    The direction is that of all slopes, where they agree. The diagonal between the two corners that lie
    furthest apart along it meets every value of w · x, so the function on it is all of g.
    """
    direction = _common_slope(function, inputs)
    if direction is None:
        return None
    start, end = np.where(direction > 0, [[0.0], [1.0]], [[1.0], [0.0]])
    reach = float(direction @ (end - start))
    along = additive(lambda u: function(start + u * (end - start)), 1, tolerance / 2)
    net = Shallow(
        along.inner * direction / reach,
        along.offset - along.inner[:, 0] * float(direction @ start) / reach,
        along.outer,
        along.constant,
        error=along.error,
        points=along.points,
    )
    net = everywhere(net, function, inputs)
    return net if net.error <= tolerance else None


def _common_slope(function: Function, inputs: int) -> Float[np.ndarray, " inputs"] | None:
    """The unit vector that all slopes of all outputs are multiples of, by central differences."""
    places = np.random.default_rng(0).uniform(_STEP, 1 - _STEP, size=(256, 1, inputs))
    moves = _STEP * np.eye(inputs)
    ahead, behind = (evaluated(function, (places + way * moves).reshape(-1, inputs)) for way in (1, -1))
    slopes = (ahead - behind).reshape(len(places), inputs, -1).transpose(0, 2, 1).reshape(-1, inputs)
    _, sizes, directions = np.linalg.svd(slopes, full_matrices=False)
    if not sizes[0] > 0 or (len(sizes) > 1 and sizes[1] > _PARALLEL * sizes[0]):
        return None
    return np.asarray(directions[0])


_MIXED = 1e-9  # a mixed difference below this, relative to the function's spread, counts as none


def network_of(
    function: Function, inputs: int, tolerance: float, *, seed: int = 0, places: Points | None = None
) -> Shallow:
    """By knots where a function is a sum over the axes, or one of a single direction; fitted otherwise.

    Structure is found by looking, so a network by knots must also pass a search of the whole cube, and each
    network the `places` where the function is known to be unusual.
    """
    if inputs == 1:
        return additive(function, inputs, tolerance, places=places)  # which looks along the one axis there is
    if is_additive(function, inputs, seed=seed):
        summed = everywhere(additive(function, inputs, tolerance, places=places), function, inputs)
        if summed.error <= tolerance:
            return summed
    along = ridge(function, inputs, tolerance)
    if along is not None and (along := at_places(along, function, places)).error <= tolerance:
        return along
    return fit(function, inputs, tolerance, seed=seed, places=places)


def is_additive(function: Function, inputs: int, *, seed: int = 0) -> bool:
    """Whether no two inputs act on each other: all mixed differences vanish, at random places and corners."""
    random = np.random.default_rng(seed)
    places = random.uniform(size=(2, 1024, inputs))
    places[:, ::2] = places[:, ::2].round()
    base, moved = places
    part = random.uniform(size=base.shape) < 0.5
    one, other = np.where(part, moved, base), np.where(part, base, moved)
    a, b, c, d = (evaluated(function, x) for x in (base, one, other, moved))
    spread = np.ptp(np.concatenate([a, b, c, d]), axis=0)
    return bool((np.abs(a - b - c + d).max(axis=0) <= _MIXED * spread).all())
