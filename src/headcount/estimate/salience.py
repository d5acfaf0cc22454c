"""How many tokens matter: which inputs change the output of one wide member.

A target that retrieves D things depends, at almost every sequence, on at most D tokens, and its gradient
vanishes at all others. A member that learnt it well shows the same.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.models.transformer import Transformer

# Shares of the largest gradient in a sequence: above the first a token matters, above the second a little.
SALIENT, FAINT = 0.2, 0.1
# A quantile of the counts over sequences, since two things retrieved may lie at one token; and the error up
# to which a member's gradients are sharp enough to count. At these values the number is D on every
# calibration task with numeric targets.
QUANTILE, GOOD_FIT = 0.8, 0.02


@dataclass(frozen=True, eq=False)
class Salience:
    """`shares`: for each sequence and token, |dy / dx(t)| over the largest of its sequence."""

    shares: Float[np.ndarray, "sample token"]

    @classmethod
    def of(cls, moves: Float[np.ndarray, "sample token"]) -> "Salience":
        """From the norm of the gradient at each token."""
        return cls(moves / np.maximum(moves.max(axis=1, keepdims=True), np.finfo(np.float32).tiny))

    def counts(self, threshold: float) -> np.ndarray:
        """How many tokens of each sequence have a share above the threshold."""
        return (self.shares > threshold).sum(axis=1)

    def typical(self, threshold: float, quantile: float) -> int:
        """An upper quantile of the counts: two things retrieved may lie at one token."""
        return int(np.quantile(self.counts(threshold), quantile, method="inverted_cdf"))


def salience(
    model: Transformer,
    x: Float[np.ndarray, "sample token token_dim"],
    mask: Bool[np.ndarray, "sample token"] | None = None,
) -> Salience:
    """The shares of all tokens of some sequences."""
    seen = jnp.ones(x.shape[:2], bool) if mask is None else jnp.asarray(mask)
    return Salience.of(np.asarray(_moves(model, jnp.asarray(x), seen)))


@jax.jit
def _moves(model: Transformer, x: Float[Array, "sample token token_dim"], mask: Array) -> Array:
    """The norm of the derivative of all outputs with respect to each token."""

    def of_one(sequence: Array, there: Array) -> Array:
        jacobian = jax.jacrev(lambda tokens: model(tokens, mask=there))(sequence)
        return jnp.sqrt(jnp.sum(jacobian**2, axis=(0, 2)))

    return jax.vmap(of_one)(x, mask)
