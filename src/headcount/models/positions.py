"""What positions are to a model: what the encoder reads about them, and which tokens see which."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.models.architecture import SINUSOIDS, Architecture
from headcount.models.network import ACTIVATIONS, Network, Parameter, affine
from headcount.validation import expected

Switch = Float[Parameter, ""] | None


def encoder_features(
    encoder: Network,
    x: Float[Array, "token token_dim"],
    architecture: Architecture,
    sees_positions: Switch = None,
) -> Float[Array, "feature token"]:
    """The hidden features of P at every token; `sees_positions` 0 hides t from it.

    What P reads about t is the same in every sequence: its share of the first layer is computed once, and
    for e_t it is a column of the weights.
    """
    if architecture.positions == "none" or len(encoder.weights) == 1:
        return encoder.hidden(encoder_inputs(x, architecture, sees_positions))
    weight = jnp.asarray(encoder.weights[0])
    of_token, of_place = weight[:, : x.shape[1]], weight[:, x.shape[1] :]
    place = place_features(of_place, x.shape[0], architecture)
    first = affine(of_token, encoder.biases[0], x.T) + (
        place if sees_positions is None else sees_positions * place
    )
    rest = Network(encoder.weights[1:], encoder.biases[1:], encoder.activation)
    return rest.hidden(ACTIVATIONS[encoder.activation](first))


def encoder_inputs(
    x: Float[Array, "token token_dim"], architecture: Architecture, sees_positions: Switch = None
) -> Float[Array, "inputs token"]:
    """(x(t), φ(t)): nothing, the unit vector e_t, sines and cosines of t, or these and then that.

    With e_t a one-hidden-layer P can be any function of t plus any network of x; sines work at any length.
    """
    if architecture.positions == "none":
        return x.T
    table = jnp.asarray(position_table(x.shape[0], architecture), x.dtype)
    return jnp.concatenate([x, table if sees_positions is None else sees_positions * table], axis=-1).T


def starting_blind(encoder: Network, token_dim: int) -> Network:
    """The network as it would start if it read the token alone; the weights of positions are 0."""
    weight, bias = np.asarray(encoder.weights[0]), np.asarray(encoder.biases[0])
    wider = np.sqrt(weight.shape[1] / token_dim).astype(weight.dtype)
    first = np.concatenate([wider * weight[:, :token_dim], 0 * weight[:, token_dim:]], axis=1)
    weights, biases = (first, *encoder.weights[1:]), (wider * bias, *encoder.biases[1:])
    return Network(weights, biases, encoder.activation)


def place_features(weight: Array, length: int, architecture: Architecture) -> Float[Array, "feature token"]:
    """What P reads about every t, times its weights."""
    if architecture.positions == "one_hot":
        _check(length, architecture)
        return weight[:, :length]
    if architecture.positions == "sinusoidal":
        return weight @ _waves(length).T
    _check(length, architecture)
    return weight[:, :SINUSOIDS] @ _waves(length).T + weight[:, SINUSOIDS : SINUSOIDS + length]


def position_table(length: int, architecture: Architecture) -> Float[np.ndarray, "token feature"]:
    """What P reads about every t, where it reads anything."""
    if architecture.positions == "sinusoidal":
        return _waves(length)
    _check(length, architecture)
    places = np.eye(length, architecture.length)
    return places if architecture.positions == "one_hot" else np.concatenate([_waves(length), places], axis=1)


def _waves(length: int) -> Float[np.ndarray, "token wave"]:
    # Wavelengths from 4 tokens up, a factor 2 apart: it separates both neighbours and halves.
    angles = np.arange(length)[:, None] * 2 * np.pi / (4.0 * 2.0 ** np.arange(SINUSOIDS // 2))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)


def _check(length: int, architecture: Architecture) -> None:
    if length > (architecture.length or 0):
        raise expected("length", f"at most {architecture.length}, the positions of this model", length)


def visible(length: int, architecture: Architecture) -> Bool[np.ndarray, "reader token"] | None:
    """Row t marks the tokens that token t can attend to; None where that is every token.

    A token sees itself and those at most `window` places away; with a `stride` also those that are a
    multiple of it away. The first `global_tokens` tokens see all tokens and all see them. `causal` hides what
    comes later from every token. The class token sees everything and is not part of this table.

    >>> from headcount.models.architecture import Architecture
    >>> shape = Architecture(token_dim=1, heads=1, head_dim=1, causal=True, window=1, global_tokens=1)
    >>> visible(4, shape).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [1, 0, 1, 1]])
    """
    if not architecture.sparse:
        return None
    places = np.arange(length)
    ahead = places - places[:, None]
    seen = np.ones((length, length), dtype=bool)
    if architecture.window is not None or architecture.stride is not None:
        seen = np.abs(ahead) <= (architecture.window or 0)
        if architecture.stride is not None:
            seen |= ahead % architecture.stride == 0
        is_global = places < architecture.global_tokens
        seen |= is_global | is_global[:, None]
    return seen & (ahead <= 0) if architecture.causal else seen
