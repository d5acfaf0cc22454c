"""What the encoder is told about the position of a token."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.models.architecture import SINUSOIDS, Architecture
from headcount.models.network import ACTIVATIONS, Network, affine


def encoder_features(
    encoder: Network, x: Float[Array, "token token_dim"], architecture: Architecture
) -> Float[Array, "feature token"]:
    """The hidden features of P at every token.

    What P is told about t is the same in every sequence: its share of the first layer is computed once, and
    for e_t it is a column of the weights.
    """
    if architecture.positions == "none" or len(encoder.weights) == 1:
        return encoder.hidden(encoder_inputs(x, architecture))
    weight, told = jnp.asarray(encoder.weights[0]), _told(x.shape[0], architecture)
    of_token, of_place = weight[:, : x.shape[1]], weight[:, x.shape[1] :]
    place = of_place[:, : len(told)] if architecture.positions == "one_hot" else of_place @ told.T
    first = ACTIVATIONS[encoder.activation](affine(of_token, encoder.biases[0], x.T) + place)
    return Network(encoder.weights[1:], encoder.biases[1:], encoder.activation).hidden(first)


def starting_blind(encoder: Network, token_dim: int) -> Network:
    """The network as it would start if a token were all it is told; what it is told of t weighs nothing."""
    weight, bias = np.asarray(encoder.weights[0]), np.asarray(encoder.biases[0])
    wider = np.sqrt(weight.shape[1] / token_dim).astype(weight.dtype)
    first = np.concatenate([wider * weight[:, :token_dim], 0 * weight[:, token_dim:]], axis=1)
    weights, biases = (first, *encoder.weights[1:]), (wider * bias, *encoder.biases[1:])
    return Network(weights, biases, encoder.activation)


def encoder_inputs(
    x: Float[Array, "token token_dim"], architecture: Architecture
) -> Float[Array, "inputs token"]:
    """(x(t), φ(t)): nothing, the unit vector e_t, or sines and cosines of t.

    With e_t a one-hidden-layer P can be any function of t plus any network of x; sines work at any length.
    """
    if architecture.positions == "none":
        return x.T
    return jnp.concatenate([x, jnp.asarray(_told(x.shape[0], architecture), x.dtype)], axis=-1).T


def _told(length: int, architecture: Architecture) -> Float[np.ndarray, "token feature"]:
    if architecture.positions == "one_hot":
        if length > architecture.position_features:
            raise InvalidInput(f"length = {length}: this model knows positions up to {architecture.length}")
        return np.eye(length, architecture.position_features)
    # Wavelengths from 4 tokens up, a factor 2 apart: neighbours and halves are both told apart.
    angles = np.arange(length)[:, None] * 2 * np.pi / (4.0 * 2.0 ** np.arange(SINUSOIDS // 2))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
