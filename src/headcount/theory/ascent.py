"""The largest value of a function on the unit cube, by projected gradient ascent from many starts."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Function = Callable[[Float[Array, "..."]], Float[Array, ""]]

STEPS = 200
_FIRST_STEP, _LAST_STEP = 0.2, 1e-6


@dataclass(frozen=True)
class Highest:
    """max_{x in cube} f(x) as found: a lower bound of the supremum, and where it is taken."""

    value: float
    point: Float[np.ndarray, "..."]


def highest(function: Function, starts: Float[np.ndarray, "starts ..."], *, steps: int = STEPS) -> Highest:
    """X ← clip(x + η ∇f / max|∇f|), η from a fifth of the cube's edge to a millionth of it.

    Only the direction of the gradient counts, so that kinks and flat parts cost nothing but time; the
    best point of every path is kept, not the last. All in float64.

    >>> found = highest(lambda x: -jnp.sum(jnp.abs(x - 0.25)), np.zeros((1, 2)))
    >>> found.point.round(3)
    array([0.25, 0.25])
    """
    shrink = (_LAST_STEP / _FIRST_STEP) ** (1 / max(1, steps - 1))

    def climb(start: Float[Array, "..."]) -> tuple[Float[Array, ""], Float[Array, "..."]]:
        def step(
            path: tuple[Array, Array, Array], size: Float[Array, ""]
        ) -> tuple[tuple[Array, Array, Array], None]:
            point, best, best_point = path
            value, slope = jax.value_and_grad(function)(point)
            better = value > best
            best, best_point = jnp.where(better, value, best), jnp.where(better, point, best_point)
            slope = jnp.nan_to_num(slope)
            slope /= jnp.maximum(jnp.max(jnp.abs(slope)), jnp.finfo(slope.dtype).tiny)
            return (jnp.clip(point + size * slope, 0, 1), best, best_point), None

        sizes = _FIRST_STEP * shrink ** jnp.arange(steps)
        (_, best, best_point), _ = jax.lax.scan(step, (start, -jnp.inf, start), sizes)
        return best, best_point

    with jax.enable_x64(True):
        values, points = (np.asarray(part) for part in jax.jit(jax.vmap(climb))(starts))
    top = int(np.argmax(values))
    return Highest(float(values[top]), points[top])
