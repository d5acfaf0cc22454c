"""The largest value of a function on the unit cube, by projected gradient ascent from many starts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Function = Callable[..., Float[Array, ""]]

_SIZES = np.geomspace(0.2, 1e-5, 200)  # of the cube's edge


@dataclass(frozen=True, eq=False)
class Highest:
    """max_{x in cube} f(x) as found: the supremum is at least this, and here is where."""

    value: float
    point: Float[np.ndarray, "..."]


def highest(
    function: Function, starts: Float[np.ndarray, "starts ..."], *parameters: float | np.ndarray
) -> Highest:
    """The best of the climbs from all starts on function(x, *parameters), in float64.

    That is evidence, not a proof: a peak narrower than the gaps between the starts can be missed. Equal
    functions are compiled once.

    >>> highest(lambda x, centre: -jnp.sum(jnp.abs(x - centre)), np.zeros((1, 2)), 0.25).point.round(3)
    array([0.25, 0.25])
    """
    with jax.enable_x64(True):
        value, point = _best_climb(function, starts, *parameters)
    return Highest(float(value), np.asarray(point))


@partial(jax.jit, static_argnums=0)
def _best_climb(
    function: Function, starts: Float[Array, "starts ..."], *parameters: Array
) -> tuple[Float[Array, ""], Float[Array, "..."]]:
    values, points = climbs(lambda x: function(x, *parameters), starts, _SIZES)
    top = jnp.argmax(values)
    return values[top], points[top]


def climbs(
    function: Function, starts: Float[Array, "starts ..."], sizes: Float[np.ndarray, " steps"]
) -> tuple[Float[Array, " starts"], Float[Array, "starts ..."]]:
    """(x ← clip(x + η ∇f / max|∇f|) with η from `sizes`): the best value of each path, and where.

    Only the direction of the gradient counts, so a kink or a slope of any size is climbed alike, and the
    best point of a path is kept, not its last. What is not a number is no height.
    """
    return jax.vmap(lambda start: _climb(function, start, jnp.asarray(sizes)))(starts)


def _climb(
    function: Function, start: Float[Array, "..."], sizes: Float[Array, " steps"]
) -> tuple[Float[Array, ""], Float[Array, "..."]]:
    def step(path: tuple[Array, Array, Array], size: Array) -> tuple[tuple[Array, Array, Array], None]:
        point, best, best_point = path
        value, slope = jax.value_and_grad(function)(point)
        better = value > best
        slope = jnp.nan_to_num(slope)
        slope /= jnp.maximum(jnp.max(jnp.abs(slope)), jnp.finfo(slope.dtype).tiny)
        return (
            jnp.clip(point + size * slope, 0, 1),
            jnp.where(better, value, best),
            jnp.where(better, point, best_point),
        ), None

    (_, best, best_point), _ = jax.lax.scan(step, (start, jnp.asarray(-jnp.inf, start.dtype), start), sizes)
    return best, best_point
