"""The global minimum of functions on the unit cube, searched from many starts."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

VectorFunction = Callable[[Float[Array, " inputs"]], Float[Array, " outputs"]]
Point = Float[np.ndarray, " inputs"]
Points = Float[np.ndarray, "points inputs"]

_CLOUD = 2048
_STARTS = 16
_MOST_CORNERS = 1024
_HUGE = 1e100  # stands for infinity, and can still be squared
_AS_LOW = 1e-7  # of the spread of the values: kinks stop a descent this early
_APART = 1e-2  # of the cube's edge: two descents into one flat well may end this far from each other


@dataclass(frozen=True)
class Minimum:
    """min_{x in [0,1]^d} f(x) as found: the point, the value, and the furthest other point as low."""

    point: Point
    value: float
    rival: Point | None
    all_finite: bool


def minima(function: VectorFunction, *, inputs: int, seed: int) -> tuple[Minimum, ...]:
    """The global minimum of each output on [0,1]^inputs.

    A cloud of points and the corners are looked at first; bounded quasi-Newton descents then start from
    the lowest of them and from anywhere. That is evidence, not a proof: a well narrower than the gaps
    between the starts can be missed.

    >>> import jax.numpy as jnp
    >>> (lowest,) = minima(lambda x: jnp.sum((x - 0.25) ** 2)[None], inputs=2, seed=0)
    >>> lowest.point.round(3), lowest.rival
    (array([0.25, 0.25]), None)
    """
    with jax.enable_x64(True):
        cloud = _cloud(inputs, seed)
        values = np.asarray(jax.jit(jax.vmap(function))(cloud))
        slopes = jax.jit(lambda x: (function(x), jax.jacrev(function)(x)))
        return tuple(_minimum(slopes, output, cloud, values[:, output]) for output in range(values.shape[1]))


def _cloud(inputs: int, seed: int) -> Points:
    scattered = np.random.default_rng(seed).uniform(size=(_CLOUD, inputs))
    corners = itertools.islice(itertools.product((0.0, 1.0), repeat=inputs), _MOST_CORNERS)
    return np.concatenate([scattered, np.asarray(list(corners))])


def _minimum(
    slopes: Callable[[Point], tuple[Array, Array]],
    output: int,
    cloud: Points,
    values: Float[np.ndarray, " points"],
) -> Minimum:
    def objective(x: Point) -> tuple[float, Point]:
        heights, gradients = (np.asarray(part) for part in slopes(x))
        gradient = np.where(np.isnan(gradients[output]), 0.0, gradients[output])
        return float(_bounded(heights)[output]), _bounded(gradient)

    lowest_first = np.argsort(values)
    starts = cloud[np.concatenate([lowest_first[: _STARTS // 2], np.arange(_STARTS // 2)])]
    descents = [
        minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * len(start), tol=1e-15)
        for start in starts
    ]
    ends = np.asarray([descent.x for descent in descents])
    depths = np.asarray([descent.fun for descent in descents])
    best = int(np.argmin(depths))
    as_low = depths <= depths[best] + _AS_LOW * float(np.ptp(_bounded(values)))
    distances = np.where(as_low, np.linalg.norm(ends - ends[best], axis=-1), 0.0)
    furthest = int(np.argmax(distances))
    return Minimum(
        point=ends[best],
        value=float(depths[best]),
        rival=ends[furthest] if distances[furthest] > _APART else None,
        all_finite=bool(np.isfinite(values).all()),
    )


def _bounded(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """What is not a number counts as high, so that no descent ends there."""
    return np.clip(np.where(np.isnan(values), _HUGE, values), -_HUGE, _HUGE)
