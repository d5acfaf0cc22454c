"""Where sequences are like the data: likelihood and token norms within quantiles of the sampler's."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.tasks import RetrievalTask
from headcount.tasks.retrieval import Distribution

QUANTILES = (0.01, 0.99)
_SAMPLES = 4096
_SLACK = 1e-9


class Region(NamedTuple):
    """Sequences whose log-likelihood and whose every token's norm lie between two ends.

    The sampler's own support always counts: a uniform task has no sequences outside the cube.
    """

    distribution: Distribution
    norms: tuple[float, float]
    likelihoods: tuple[float, float]

    @classmethod
    def of_data(cls, task: RetrievalTask, length: int, *, seed: int = 0) -> "Region":
        """Between the 1st and the 99th percentile of the task's sampler."""
        with jax.enable_x64(True):
            x = task.inputs(jax.random.key(seed), _SAMPLES, length)
            norms = jnp.quantile(jnp.linalg.norm(x, axis=-1).ravel(), jnp.asarray(QUANTILES))
            likelihoods = jnp.quantile(log_likelihood(x, task.distribution), jnp.asarray(QUANTILES))
        return cls(task.distribution, _ends(norms), _ends(likelihoods))

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
        """A nearby sequence inside: all tokens scaled together, then each by itself; a few rounds of both."""
        for _ in range(3):
            if self.distribution == "uniform":
                x = jnp.clip(x, 0, 1)
            elif np.isfinite(self.likelihoods[0]):
                likelihood = log_likelihood(x, self.distribution)
                wanted = jnp.clip(likelihood, *self.likelihoods)
                x = x * jnp.sqrt(wanted / jnp.minimum(likelihood, -1e-300))
            norms = jnp.sqrt(jnp.maximum(jnp.sum(x**2, axis=-1, keepdims=True), 1e-300))
            x = x * jnp.clip(norms, *self.norms) / norms
        return x


def log_likelihood(x: Float[Array, "*batch length token_dim"], distribution: Distribution) -> Array:
    """The log density of a sequence, up to a constant: −|x|²/2 for normal tokens, flat on the cube."""
    if distribution == "normal":
        return -0.5 * jnp.sum(x**2, axis=(-2, -1))
    inside = jnp.all((x >= -_SLACK) & (x <= 1 + _SLACK), axis=(-2, -1))
    return jnp.where(inside, 0.0, -jnp.inf)


def _ends(pair: Float[Array, "2"]) -> tuple[float, float]:
    return float(pair[0]), float(pair[1])
