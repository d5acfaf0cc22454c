"""A last polish by Levenberg–Marquardt, in float64 and over all training data at once.

Where first-order training has come near a solution, its steps shrink with its schedule and it stops in a
long, flat valley. The sum of squares has more structure than its gradient shows: with J the Jacobian of the
residuals r, a step solves (JᵀJ + λ·diag(JᵀJ)) δ = −Jᵀr. Some dozens of such steps reach what many thousands
of first-order ones do not. JᵀJ is as wide as the model has weights, so this is for small models.

Why not optimistix: at the paper's size (4,353 weights, 8,000 samples) ten steps here take NMSE from 5.1e-3
to 1.9e-5 in 89 s of CPU; its conjugate gradients reach 1.4e-3 in 45 s, and its QR would need about 70 GB
(estimated, not run). See benchmarks/polish.py.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

from headcount.engine.data import Data, Split
from headcount.errors import InvalidInput
from headcount.models.transformer import Transformer

_FIRST_DAMPING = 1e-3
_LIGHTER, _HEAVIER = 1 / 3, 4.0
_HEAVIEST = 1e8
_PATIENCE = 15  # steps without a better validation error, after which nothing more is to be had
_WORTH = 0.99  # an error must fall below this part of the best so far to count as better
_SLICE = 256


@dataclass(frozen=True, eq=False)
class Polished:
    """The model with the smallest validation error on the way, and NMSEs of its outputs in float64."""

    model: Transformer
    train_error: float
    validation_error: float
    test_error: float
    steps: int


def polish(model: Transformer, data: Data, dataset: int, *, steps: int) -> Polished:
    """Carry a trained model on, by at most `steps` steps; the model itself where no step helps.

    The model puts out targets in their own units; `data` holds them standardised.
    """
    if data.train.mask is not None:
        raise InvalidInput("polish_steps: expected 0 for sequences of different lengths")
    with jax.enable_x64(True):
        problem, place = _Problem.of(model, data, dataset)
        train, validation, test = (_of(split, dataset) for split in (data.train, data.validation, data.test))
        found = _descend(problem, place, train, validation, steps)
        best: Transformer = jax.tree.map(np.asarray, problem.model(found.best))
        return Polished(
            model=best,
            train_error=_nmse(problem, found.best, *train),
            validation_error=_nmse(problem, found.best, *validation),
            test_error=_nmse(problem, found.best, *test),
            steps=found.best_step,
        )


@dataclass(frozen=True, eq=False)
class _Descent:
    best: Array
    best_step: int


def _descend(
    problem: "_Problem",
    place: Float[Array, " weight"],
    train: tuple[Array, Array],
    validation: tuple[Array, Array],
    steps: int,
) -> _Descent:
    loss, damping = float(_loss(problem, place, *train)), _FIRST_DAMPING
    best, best_step, waited = place, 0, 0
    best_error = float(_loss(problem, place, *validation))
    for step in range(1, steps + 1):
        curvature, slope = _normal_equations(problem, place, *train)
        while damping < _HEAVIEST:
            moved = place + _step(curvature, slope, damping)
            found = float(_loss(problem, moved, *train))
            if found < loss:  # not so for NaN either, where the system could not be solved
                break
            damping *= _HEAVIER
        else:
            break
        place, loss, damping = moved, found, damping * _LIGHTER
        error = float(_loss(problem, place, *validation))
        waited = 0 if error < _WORTH * best_error else waited + 1
        if error < best_error:
            best, best_error, best_step = place, error, step
        if waited >= _PATIENCE:
            break
    return _Descent(best, best_step)


def _of(split: Split, dataset: int) -> tuple[Array, Array]:
    return jnp.asarray(split.x[dataset], jnp.float64), jnp.asarray(split.y[dataset], jnp.float64)


class _Problem(eqx.Module):
    """Residuals as a function of one vector, all weights that are optimised."""

    restore: Any = eqx.field(static=True)
    fixed: Transformer
    mean: Float[Array, " output"]
    deviation: Float[Array, " output"]

    @classmethod
    def of(cls, model: Transformer, data: Data, dataset: int) -> "tuple[_Problem, Float[Array, ' weight']]":
        """The problem, and where the model stands in it."""
        model = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), model)
        moving, fixed = eqx.partition(model, _moving(model))
        place, restore = ravel_pytree(moving)
        mean, deviation = (jnp.asarray(part[dataset], jnp.float64) for part in (data.mean, data.deviation))
        return cls(restore, fixed, mean, deviation), place

    def model(self, place: Float[Array, " weight"]) -> Transformer:
        return eqx.combine(self.restore(place), self.fixed)

    def residual(self, place: Array, x: Array, y: Array) -> Float[Array, " output"]:
        return (self.model(place)(x) - self.mean) / self.deviation - y


def _moving(model: Transformer) -> Transformer:
    """All weights but those of the last attention that key and value can make up for."""
    everything = jax.tree.map(lambda _: True, model)
    spec: Transformer = eqx.tree_at(
        lambda tree: (tree.class_token, tree.attention.query, tree.attention.output),
        everything,
        (False, False, False),
    )
    return spec


def _nmse(problem: _Problem, place: Array, x: Array, y: Array) -> float:
    return float(jnp.mean(jnp.mean(_residuals(problem, place, x, y) ** 2, axis=0) / jnp.var(y, axis=0)))


def _loss(problem: _Problem, place: Array, x: Array, y: Array) -> Float[Array, ""]:
    return jnp.mean(jnp.sum(_residuals(problem, place, x, y) ** 2, axis=-1))


@eqx.filter_jit
def _residuals(problem: _Problem, place: Array, x: Array, y: Array) -> Float[Array, "sample output"]:
    return jax.lax.map(lambda pair: problem.residual(place, *pair), (x, y), batch_size=_SLICE)


@eqx.filter_jit
def _normal_equations(
    problem: _Problem, place: Float[Array, " weight"], x: Array, y: Array
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
    return jax.lax.scan(add, zero, (x, y, weight))[0]


@jax.jit
def _step(
    curvature: Float[Array, "weight weight"], slope: Float[Array, " weight"], damping: float
) -> Float[Array, " weight"]:
    """Weights that nothing depends on have no curvature: a little of the largest is added for them."""
    diagonal = jnp.diagonal(curvature)
    heavier = curvature + jnp.diag(damping * diagonal + 1e-12 * jnp.max(diagonal))
    factor = jax.scipy.linalg.cho_factor(heavier, lower=True)
    return -jax.scipy.linalg.cho_solve(factor, slope)
