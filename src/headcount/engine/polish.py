"""A last polish by Levenberg–Marquardt, in float64 and over all training data at once.

Where first-order training has come near a solution, its steps shrink with its schedule and it stops in a
long, flat valley. The sum of squares has more structure than its gradient shows: with J the Jacobian of the
residuals r, a step solves (JᵀJ + λ·diag(JᵀJ)) δ = −Jᵀr. Some dozens of such steps reach what many thousands
of first-order ones do not. JᵀJ is as wide as the model has weights, so this is for small models.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from headcount.engine.data import Split
from headcount.models import Transformer

_FIRST_DAMPING = 1e-3
_LIGHTER, _HEAVIER = 1 / 3, 4.0
_HEAVIEST = 1e8
_PATIENCE = 12  # steps without a better validation error, after which nothing more is to be had
_WORTH = 0.99  # an error must fall below this part of the best so far to count as better
_SLICE = 256


def polish(
    model: Transformer, train: Split, validation: Split, *, dataset: int, steps: int, decay: float = 0.0
) -> Transformer:
    """The model with the smallest validation error on the way down, in float64; the given one if none is.

    The splits hold standardised targets, and the model puts out such.
    """
    with jax.enable_x64(True):
        model = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), model)
        moving, fixed = eqx.partition(model, _moving(model))
        place, restore = ravel_pytree(moving)
        seen, unseen = (
            tuple(jnp.asarray(part[dataset], jnp.float64) for part in (split.x, split.y))
            for split in (train, validation)
        )
        problem = _Problem(restore, fixed)
        objective, damping = float(_objective(problem, place, *seen, decay)), _FIRST_DAMPING
        best, best_error, waited = place, float(_loss(problem, place, *unseen)), 0
        for _ in range(steps):
            curvature, slope = _normal_equations(problem, place, *seen, decay)
            while damping < _HEAVIEST:
                moved = place + _step(curvature, slope, damping)
                found = float(_objective(problem, moved, *seen, decay))
                if found < objective:
                    break
                damping *= _HEAVIER
            else:
                break
            place, objective, damping = moved, found, damping * _LIGHTER
            error = float(_loss(problem, place, *unseen))
            waited = 0 if error < _WORTH * best_error else waited + 1
            if error < best_error:
                best, best_error = place, error
            if waited >= _PATIENCE:
                break
        polished: Transformer = jax.tree.map(np.asarray, problem.model(best))
        return polished


class _Problem(eqx.Module):
    """From a vector of all weights that move to the model."""

    restore: Any = eqx.field(static=True)
    fixed: Transformer

    def model(self, place: Float[Array, " weight"]) -> Transformer:
        return eqx.combine(self.restore(place), self.fixed)

    def residual(self, place: Array, x: Array, y: Array) -> Float[Array, " output"]:
        return self.model(place)(x) - y


def _moving(model: Transformer) -> Transformer:
    """All weights but those of the last attention that key and value can make up for."""
    everything = jax.tree.map(lambda _: True, model)
    spec: Transformer = eqx.tree_at(
        lambda tree: (tree.class_token, tree.attention.query, tree.attention.output),
        everything,
        (False, False, False),
    )
    return spec


@eqx.filter_jit
def _loss(problem: _Problem, place: Array, x: Array, y: Array) -> Float[Array, ""]:
    squares = jax.lax.map(
        lambda pair: jnp.sum(problem.residual(place, *pair) ** 2), (x, y), batch_size=_SLICE
    )
    return jnp.mean(squares)


@eqx.filter_jit
def _objective(problem: _Problem, place: Array, x: Array, y: Array, decay: float) -> Float[Array, ""]:
    return _loss(problem, place, x, y) + decay * jnp.sum(place**2)


@eqx.filter_jit
def _normal_equations(
    problem: _Problem, place: Float[Array, " weight"], x: Array, y: Array, decay: float
) -> tuple[Float[Array, "weight weight"], Float[Array, " weight"]]:
    """JᵀJ and Jᵀr, summed over slices: J itself would be far larger. A last slice is filled up with zeros."""
    slices = -(-len(x) // _SLICE)
    spare = slices * _SLICE - len(x)
    weight = jnp.concatenate([jnp.ones(len(x)), jnp.zeros(spare)])
    x, y, weight = (
        jnp.pad(part, [(0, len(weight) - len(part)), *[(0, 0)] * (part.ndim - 1)]).reshape(
            slices, _SLICE, *part.shape[1:]
        )
        for part in (x, y, weight)
    )

    def add(total: tuple[Array, Array], part: tuple[Array, Array, Array]) -> tuple[tuple[Array, Array], None]:
        x, y, weight = part
        residual = jax.vmap(lambda x, y: problem.residual(place, x, y))(x, y)
        jacobian = jax.vmap(jax.jacrev(problem.residual), (None, 0, 0))(place, x, y)
        residual, jacobian = residual * weight[:, None], jacobian * weight[:, None, None]
        flat = jacobian.reshape(-1, len(place))
        return (total[0] + flat.T @ flat, total[1] + flat.T @ residual.ravel()), None

    zero = (jnp.zeros((len(place), len(place))), jnp.zeros(len(place)))
    curvature, slope = jax.lax.scan(add, zero, (x, y, weight))[0]
    count = jnp.sum(weight)
    return curvature / count + decay * jnp.eye(len(place)), slope / count + decay * place


@jax.jit
def _step(
    curvature: Float[Array, "weight weight"], slope: Float[Array, " weight"], damping: float
) -> Float[Array, " weight"]:
    """Weights that nothing depends on have no curvature: a little of the largest is added for them."""
    diagonal = jnp.diagonal(curvature)
    heavier = curvature + jnp.diag(damping * diagonal + 1e-12 * jnp.max(diagonal))
    factor = jax.scipy.linalg.cho_factor(heavier, lower=True)
    return -jax.scipy.linalg.cho_solve(factor, slope)
