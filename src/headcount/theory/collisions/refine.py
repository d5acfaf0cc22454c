"""Pairs of sequences moved until a model cannot tell them apart, while their targets move apart."""

from functools import partial
from typing import NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import Distribution, RetrievalTask
from headcount.theory.evaluate import Target, representations, targets

QUANTILES = (0.01, 0.99)
_SAMPLES = 4096
_SLACK = 1e-9
_TINY = 1e-300
_HALVINGS = 64


class Region(NamedTuple):
    """Sequences whose log-likelihood and whose every token's norm lie between two ends.

    The sampler's own support always counts: a uniform task has no sequences outside the cube.
    """

    distribution: Distribution
    norms: tuple[float, float]
    likelihoods: tuple[float, float]

    @classmethod
    def of_data(cls, task: RetrievalTask, length: int, *, seed: int = 0) -> "Region":
        """Between the 1st and the 99th percentile of the task's sampler, the norms token by token.

        A long sequence of the data often has a token outside; none of those in here stands on such a token.
        """
        with jax.enable_x64(True):
            x = np.asarray(task.inputs(jax.random.key(seed), _SAMPLES, length))
            likelihood = np.asarray(log_likelihood(jnp.asarray(x), task.distribution))
        norms = np.quantile(np.linalg.norm(x, axis=-1), QUANTILES).tolist()
        return cls(task.distribution, tuple(norms), tuple(np.quantile(likelihood, QUANTILES).tolist()))

    @classmethod
    def everywhere(cls, task: RetrievalTask) -> "Region":
        """The whole support of the sampler."""
        return cls(task.distribution, (0.0, np.inf), (-np.inf, np.inf))

    def contains(self, x: Float[Array, "length token_dim"]) -> Bool[Array, ""]:
        """Whether a sequence lies in the region."""
        norms = jnp.linalg.norm(x, axis=-1)
        low, high = self.norms
        inside = jnp.all((norms >= low - _SLACK) & (norms <= high + _SLACK))
        likelihood = log_likelihood(x, self.distribution)
        low, high = self.likelihoods
        return inside & (likelihood >= low - _SLACK) & (likelihood <= high + _SLACK)

    def project(self, x: Float[Array, "length token_dim"]) -> Float[Array, "length token_dim"]:
        """A nearby sequence inside; one that lies inside stays."""
        if self.distribution == "uniform":
            return _into_cube(x, *self.norms)
        return x if np.isinf(self.norms[1]) else _scaled(x, self.norms, self.likelihoods)


def _into_cube(
    x: Float[Array, "length token_dim"], low: float, high: float
) -> Float[Array, "length token_dim"]:
    """Tokens cut to the cube; too long ones shortened, too short ones moved to the corner (1, …, 1).

    On the way to that corner no token leaves the cube, the origin has a direction to go, and
    |x + s (1 − x)| = low is a quadratic equation for s.
    """
    x = jnp.clip(x, 0, 1)
    squares = jnp.sum(x**2, axis=-1, keepdims=True)
    x = x * jnp.minimum(1, high / jnp.sqrt(jnp.maximum(squares, _TINY)))
    missing = jnp.maximum(low**2 - squares, 0)
    half, square = (jnp.sum(part * (1 - x), axis=-1, keepdims=True) for part in (x, 1 - x))
    return x + (1 - x) * missing / (half + jnp.sqrt(half**2 + square * missing) + _TINY)


def _scaled(
    x: Float[Array, "length token_dim"], ends: tuple[float, float], likelihoods: tuple[float, float]
) -> Float[Array, "length token_dim"]:
    """All norms times one factor, then cut to their ends: bisection for the factor that the likelihood asks.

    Scaling first and cutting afterwards, however often, need not end inside both.
    """
    norms = jnp.linalg.norm(x, axis=-1, keepdims=True)
    directions = jnp.where(norms > 0, x / jnp.maximum(norms, _TINY), x.shape[-1] ** -0.5)
    norms = jnp.maximum(norms, _TINY)

    def total(log_factor: Float[Array, ""] | float) -> Float[Array, ""]:
        return jnp.sum(jnp.clip(jnp.exp(log_factor) * norms, *ends) ** 2)

    wanted = jnp.clip(total(0.0), -2 * likelihoods[1], -2 * likelihoods[0])

    def halve(_: int, between: Float[Array, "2"]) -> Float[Array, "2"]:
        middle = jnp.mean(between)
        return jnp.where(total(middle) < wanted, between.at[0].set(middle), between.at[1].set(middle))

    # From all tokens at the low end to all at the high end.
    widest = jnp.log(jnp.stack([ends[0] / jnp.max(norms), ends[1] / jnp.min(norms)]))
    log_factor = jnp.mean(jax.lax.fori_loop(0, _HALVINGS, halve, widest))
    # Bisection has no slope of its own.
    log_factor = jax.lax.stop_gradient(jnp.where(total(0.0) == wanted, 0.0, log_factor))
    return directions * jnp.clip(jnp.exp(log_factor) * norms, *ends)


def log_likelihood(x: Float[Array, "*batch length token_dim"], distribution: Distribution) -> Array:
    """The log density of a sequence, up to a constant: −|x|²/2 for normal tokens, flat on the cube."""
    if distribution == "normal":
        return -0.5 * jnp.sum(x**2, axis=(-2, -1))
    inside = jnp.all((x >= -_SLACK) & (x <= 1 + _SLACK), axis=(-2, -1))
    return jnp.where(inside, 0.0, -jnp.inf)


SAME = 1e-4  # representations this close, relative to their spread, count as one unless less is asked for
_DAMPING = 1e-11
_POLISH = 0.3  # the last part of the steps only brings representations together
_CLOSING = 60  # further steps of that kind where representations must be closer than `SAME`


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
    tolerance: float = SAME,
) -> Pairs:
    """From each pair the largest target gap met while the representations agreed inside the region.

    Every step solves for the smallest move of both sequences that makes their representations equal to first
    order (Gauss–Newton), and adds a move along the pairs that stay equal that raises the gap of the targets.
    Such a step leaves a gap of second order: where the tolerance is below `SAME`, the best pair is
    closed further by steps without that second move. A pair that never agreed to the tolerance comes back as
    one sequence twice, its target gap 0, its representation gap ∞.
    """
    count = len(pairs[0])
    sizes = np.geomspace(0.3, 0.003, count)[np.random.default_rng(seed).permutation(count)]
    with jax.enable_x64(True):
        first, second = (jnp.asarray(part, jnp.float64) for part in pairs)
        schedule = Schedule(steps, _CLOSING if tolerance < SAME else 0)
        starts = first, second, jnp.asarray(sizes)
        found = _climb_all(model, task, region, units, schedule, jnp.asarray(tolerance), starts)
        return Pairs(*(np.asarray(part) for part in found))


class Schedule(NamedTuple):
    """How many steps climb, and how many only close what is left."""

    climbing: int
    closing: int


@eqx.filter_jit
def _climb_all(
    model: Transformer,
    task: Target,
    region: Place,
    units: Units,
    schedule: Schedule,
    tolerance: Float[Array, ""],
    starts: tuple[Array, ...],
) -> tuple[Array, Array, Array, Array]:
    return jax.vmap(partial(_climb, model, task, region, units, schedule, tolerance))(*starts)


def _climb(
    model: Transformer,
    task: Target,
    region: Place,
    units: Units,
    schedule: Schedule,
    tolerance: Array,
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

    # Pairs that nearly agree are worth closing, those that agree are what is asked for.
    close = jnp.stack([jnp.maximum(tolerance, SAME), tolerance])

    def step(
        climbing: bool, now: tuple[Array, Array, Array, Array], progress: Array
    ) -> tuple[tuple[Array, Array, Array, Array], None]:
        # To close what is left, sequences are taken for what they are projected to: what the region stops
        # has no slope, and the smallest move does without it.
        stay = (lambda x: x) if climbing else region.project
        free, best, best_gap, best_distance = now
        both = jax.vmap(stay)(free)
        apart, raised = difference(both), jnp.max(jnp.abs(signed_gap(both)))
        distance = jnp.linalg.norm(apart)
        counts = (distance <= close) & jnp.all(jax.vmap(region.contains)(both))
        better = counts & (raised > best_gap)
        best = jnp.where(better[:, None, None, None], both, best)
        best_gap = jnp.where(better, raised, best_gap)
        best_distance = jnp.where(better, distance, best_distance)
        slopes = jax.vmap(jax.jacrev(lambda x: represent(stay(x))))(free).reshape(2, len(apart), -1)
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
        free += move.reshape(free.shape)
        return (jax.vmap(region.project)(free) if climbing else free, best, best_gap, best_distance), None

    both = jax.vmap(region.project)(jnp.stack([first, second]))
    once_twice = jnp.stack([both[0], both[0]])
    start = both, jnp.stack([once_twice] * 2), jnp.full(2, -1.0), jnp.full(2, jnp.inf)
    now, _ = jax.lax.scan(partial(step, True), start, jnp.linspace(0, 1, schedule.climbing + 1))
    if schedule.closing:
        now, _ = jax.lax.scan(partial(step, False), (now[1][0], *now[1:]), jnp.ones(schedule.closing))
    _, best, gap, distance = (part[-1] for part in now)
    return best[0], best[1], jnp.maximum(gap, 0), distance
