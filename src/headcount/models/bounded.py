"""Assumption 1 of Theorem 2, under which the lower bound is proven: a bounded encoder and bounded weights.

    |P(x, t)|_2 ≤ 1, and every entry of F and of W_Q, W_K, W_V, W_O is at most 1 in magnitude.

β and the class token are free: they multiply the logits, and the lower bound holds for any β. Beside that the
class token is a constant in what F reads.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from headcount.models.network import Network, Parameter
from headcount.models.transformer import Attention, Transformer


def project(
    model: Transformer,
    *,
    mean: Float[Parameter, " output"] | float = 0.0,
    deviation: Float[Parameter, " output"] | float = 1.0,
) -> Transformer:
    """The nearest model whose entries all lie in [−1, 1] once its outputs are multiplied and moved.

    In training the outputs are standardised: y = deviation · F + mean. It is the F of y that is bounded, so
    that the last layer of the standardised one has limits of its own, (±1 − mean) / deviation for its bias.
    """
    *weights, last = model.readout.weights
    *biases, end = model.readout.biases
    limit = jnp.broadcast_to(1 / jnp.asarray(deviation, last.dtype), end.shape)
    centre = -jnp.asarray(mean, end.dtype) * limit
    last = jnp.clip(last, -limit[:, None], limit[:, None])
    end = jnp.clip(end, centre - limit, centre + limit)
    weights, biases = jax.tree.map(lambda entry: jnp.clip(entry, -1, 1), (weights, biases))
    readout = Network((*weights, last), (*biases, end), model.readout.activation)
    attention: Attention = jax.tree.map(lambda entry: jnp.clip(entry, -1, 1), model.attention)
    projected: Transformer = eqx.tree_at(
        lambda tree: (tree.attention, tree.readout), model, (attention, readout)
    )
    return projected


def largest_entry(model: Transformer) -> float:
    """The largest magnitude of an entry of F and of the attention matrices: Assumption 1 asks for 1."""
    return max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves((model.attention, model.readout)))
