"""Pairs of sequences moved until a model cannot tell them apart, while their targets move apart."""

from functools import partial
from typing import NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.models.transformer import Transformer
from headcount.theory.evaluate import Target, representations, targets

SAME = 1e-4  # representations this close, relative to their spread, count as one
_DAMPING = 1e-11
_POLISH = 0.3  # the last part of the steps only brings representations together


class Units(NamedTuple):
    """What distances are measured in: the spread of representations and of targets over the data."""

    representation: float
    target: Float[np.ndarray, " output"]


class Place(Protocol):
    """Where sequences may be moved to."""

    def contains(self, x: Float[Array, "length token_dim"], /) -> Bool[Array, ""]:
        """Whether a sequence lies there."""

    def project(self, x: Float[Array, "length token_dim"], /) -> Float[Array, "length token_dim"]:
        """A nearby sequence that does."""


class Pairs(NamedTuple):
    """Two sequences each, the gap of their targets and that of their representations."""

    first: Float[np.ndarray, "pair length token_dim"]
    second: Float[np.ndarray, "pair length token_dim"]
    target_gap: Float[np.ndarray, " pair"]
    representation_gap: Float[np.ndarray, " pair"]


def units_of(model: Transformer, task: Target, x: Float[np.ndarray, "sample length token_dim"]) -> Units:
    """Root mean square distance of representations from their mean, and the deviation of each output."""
    with jax.enable_x64(True):
        found = np.asarray(representations(model, jnp.asarray(x)))
        wanted = np.asarray(targets(task, jnp.asarray(x)))
    spread = float(np.sqrt(((found - found.mean(axis=0)) ** 2).sum(axis=1).mean()))
    return Units(spread, wanted.std(axis=0))


def refine(
    model: Transformer,
    task: Target,
    region: Place,
    units: Units,
    pairs: tuple[Float[np.ndarray, "pair length token_dim"], Float[np.ndarray, "pair length token_dim"]],
    *,
    steps: int,
    seed: int,
) -> Pairs:
    """From each pair the largest target gap met while the representations agreed inside the region.

    Every step solves for the smallest move of both sequences that makes their representations equal to first
    order (Gauss–Newton), and adds a move along the pairs that stay equal that raises the gap of the targets.
    A pair that never agreed comes back as one sequence twice, its target gap 0, its representation gap ∞.
    """
    count = len(pairs[0])
    sizes = np.geomspace(0.3, 0.003, count)[np.random.default_rng(seed).permutation(count)]
    with jax.enable_x64(True):
        first, second = (jnp.asarray(part, jnp.float64) for part in pairs)
        found = _climb_all(model, task, region, units, steps, first, second, jnp.asarray(sizes))
        return Pairs(*(np.asarray(part) for part in found))


@eqx.filter_jit
def _climb_all(
    model: Transformer,
    task: Target,
    region: Place,
    units: Units,
    steps: int,
    first: Array,
    second: Array,
    sizes: Array,
) -> tuple[Array, Array, Array, Array]:
    return jax.vmap(partial(_climb, model, task, region, units, steps))(first, second, sizes)


def _climb(
    model: Transformer,
    task: Target,
    region: Place,
    units: Units,
    steps: int,
    first: Array,
    second: Array,
    size: Array,
) -> tuple[Array, Array, Array, Array]:
    def represent(x: Array) -> Array:
        return model.representation(x) / units.representation

    def standardised(x: Array) -> Array:
        return task.target(x) / units.target

    sign = jnp.where(standardised(first) >= standardised(second), 1.0, -1.0)

    def signed_gap(both: Array) -> Array:
        return sign * (standardised(both[0]) - standardised(both[1]))

    def difference(both: Array) -> Array:
        return represent(both[0]) - represent(both[1])

    def step(
        now: tuple[Array, Array, Array, Array], progress: Array
    ) -> tuple[tuple[Array, Array, Array, Array], None]:
        both, best, best_gap, best_distance = now
        apart, raised = difference(both), jnp.max(jnp.abs(signed_gap(both)))
        distance = jnp.linalg.norm(apart)
        counts = (distance <= SAME) & jnp.all(jax.vmap(region.contains)(both))
        better = counts & (raised > best_gap)
        best = jnp.where(better, both, best)
        best_gap = jnp.where(better, raised, best_gap)
        best_distance = jnp.where(better, distance, best_distance)
        slopes = jax.vmap(jax.jacrev(represent))(both).reshape(2, len(apart), -1)
        jacobian = jnp.concatenate([slopes[0], -slopes[1]], axis=1)
        uphill = jax.grad(lambda pair: jnp.max(signed_gap(pair)))(both).ravel()
        uphill = jnp.nan_to_num(uphill, posinf=0, neginf=0)  # at a kink a slope may be anything
        square = jacobian @ jacobian.T
        square += _DAMPING * (jnp.trace(square) + 1e-30) * jnp.eye(len(apart))
        solved = jnp.linalg.solve(square, jnp.stack([apart, jacobian @ uphill], axis=1))
        closing, rising = -jacobian.T @ solved[:, 0], uphill - jacobian.T @ solved[:, 1]
        rate = size * jnp.maximum(0, 1 - progress / (1 - _POLISH))
        longest = jnp.maximum(jnp.abs(closing).max(), 1e-300)
        move = closing * jnp.minimum(1, 0.5 / longest) + rate * rising / (jnp.linalg.norm(rising) + 1e-300)
        both = jax.vmap(region.project)(both + move.reshape(both.shape))
        return (both, best, best_gap, best_distance), None

    both = jax.vmap(region.project)(jnp.stack([first, second]))
    start = (both, jnp.stack([both[0], both[0]]), jnp.full((), -1.0), jnp.full((), jnp.inf))
    (_, best, best_gap, best_distance), _ = jax.lax.scan(step, start, jnp.linspace(0, 1, steps + 1))
    return best[0], best[1], jnp.maximum(best_gap, 0), best_distance
