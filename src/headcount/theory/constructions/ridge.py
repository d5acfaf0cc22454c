"""One-hidden-layer networks for functions of one direction, g(w · x)."""

import numpy as np
from jaxtyping import Float

from headcount.theory.constructions.shallow import Function, Shallow, additive, evaluated, everywhere

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
        proven=False,
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
