"""How many tokens matter: where the output of one wide member moves with its inputs.

A target that retrieves D things depends, at almost every sequence, on at most D tokens, and its gradient
vanishes at all others. A member that learnt it well shows the same.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.models.transformer import Transformer

# Shares of the largest gradient in a sequence: a token that moves the output more matters, or does a little.
SALIENT, FAINT = 0.2, 0.1
# Of the sequences: as many have no more tokens that matter. Two things retrieved may lie at one token, and a
# member's gradients are sharp only where it fits well. At these values the number is D on every calibration
# task of numbers; where the error is above that of a good fit, no number is told.
QUANTILE, GOOD_FIT = 0.8, 0.02


@dataclass(frozen=True, eq=False)
class Salience:
    """`shares`: for each sequence and token, |dy / dx(t)| over the largest of its sequence."""

    shares: Float[np.ndarray, "sample token"]

    @classmethod
    def of(cls, moves: Float[np.ndarray, "sample token"]) -> "Salience":
        """From how much the output moves with each token."""
        return cls(moves / np.maximum(moves.max(axis=1, keepdims=True), np.finfo(np.float32).tiny))

    def counts(self, threshold: float) -> np.ndarray:
        """How many tokens of each sequence have a larger share than this."""
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
