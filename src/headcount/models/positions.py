"""What the encoder is told about the position of a token."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.models.architecture import SINUSOIDS, Architecture


def encoder_inputs(
    x: Float[Array, "token token_dim"], architecture: Architecture
) -> Float[Array, "inputs token"]:
    """(x(t), φ(t)): nothing, the unit vector e_t, or sines and cosines of t.

    With e_t a one-hidden-layer P can be any function of t plus any network of x; sines work at any length.
    """
    length = x.shape[0]
    if architecture.positions == "none":
        return x.T
    if architecture.positions == "one_hot":
        if length > architecture.position_features:
            raise InvalidInput(f"length = {length}: this model knows positions up to {architecture.length}")
        table = np.eye(length, architecture.position_features)
    else:
        # Wavelengths from 4 tokens up, a factor 2 apart: neighbours and halves are both told apart.
        angles = np.arange(length)[:, None] * 2 * np.pi / (4.0 * 2.0 ** np.arange(SINUSOIDS // 2))
        table = np.concatenate([np.sin(angles), np.cos(angles)], axis=-1)
    return jnp.concatenate([x, jnp.asarray(table, x.dtype)], axis=-1).T
