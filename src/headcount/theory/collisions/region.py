"""Where sequences are like the data: likelihood and token norms within quantiles of the sampler's."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.tasks.retrieval import Distribution, RetrievalTask

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
        norms = np.quantile(np.linalg.norm(x, axis=-1), QUANTILES)
        return cls(task.distribution, _ends(*norms), _ends(*np.quantile(likelihood, QUANTILES)))

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
    log_factor = jnp.where(total(0.0) == wanted, 0.0, log_factor)
    return directions * jnp.clip(jnp.exp(log_factor) * norms, *ends)


def log_likelihood(x: Float[Array, "*batch length token_dim"], distribution: Distribution) -> Array:
    """The log density of a sequence, up to a constant: −|x|²/2 for normal tokens, flat on the cube."""
    if distribution == "normal":
        return -0.5 * jnp.sum(x**2, axis=(-2, -1))
    inside = jnp.all((x >= -_SLACK) & (x <= 1 + _SLACK), axis=(-2, -1))
    return jnp.where(inside, 0.0, -jnp.inf)


def _ends(low: float, high: float) -> tuple[float, float]:
    return float(low), float(high)
