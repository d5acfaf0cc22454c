"""Attention of one head once its query and key are folded: scores, softmax, average."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Directions = Float[Array, "head feature"]
Features = Float[Array, "feature token"]
Averages = Float[Array, "head feature"]
Mask = Bool[Array, " token"] | None
Pool = Callable[[Directions, Features, Mask], Averages]


def weights(directions: Directions, features: Features, mask: Mask) -> Float[Array, "head token"]:
    """softmax_t( a_h · φ(t) ) over the tokens that the mask leaves."""
    return softmax(directions @ features, mask)


def softmax(
    logits: Float[Array, "*rows token"], mask: Bool[Array, "*readers token"] | None
) -> Float[Array, "*rows token"]:
    """Softmax over the last axis, 0 where the mask is False; one mask for all readers, or one for each."""
    return jax.nn.softmax(logits if mask is None else jnp.where(mask, logits, -jnp.inf), axis=-1)


def pool(directions: Directions, features: Features, mask: Mask) -> Averages:
    r"""Σ_t w_h(t) φ(t) with w_h = softmax_t( a_h · φ(t) )."""
    return weights(directions, features, mask) @ features.T


def pool_for_training(directions: Directions, features: Features, mask: Mask) -> Averages:
    """`pool` with a gradient derived by hand: faster steps on a CPU, but reverse mode only."""
    return _pool(directions, features, mask, jax.config.values["jax_default_matmul_precision"])


# JAX traces a custom gradient outside of the context of the call: without the explicit precision, products
# would fall back to the default of the device.
@partial(jax.custom_vjp, nondiff_argnums=(3,))
def _pool(directions: Directions, features: Features, mask: Mask, precision: str | None) -> Averages:
    with jax.default_matmul_precision(precision):
        return pool(directions, features, mask)


def _forward(
    directions: Directions, features: Features, mask: Mask, precision: str | None
) -> tuple[Averages, tuple[Array, ...]]:
    with jax.default_matmul_precision(precision):
        attention = weights(directions, features, mask)
        return attention @ features.T, (directions, features, attention)


def _backward(
    precision: str | None, kept: tuple[Array, ...], averages_bar: Averages
) -> tuple[Array, Array, None]:
    """φ enters twice, in the scores and in the average: one product of depth 2h gives both gradients."""
    directions, features, attention = kept
    with jax.default_matmul_precision(precision):
        attention_bar = averages_bar @ features
        logits_bar = attention * (attention_bar - jnp.sum(attention * attention_bar, axis=-1, keepdims=True))
        features_bar = jnp.concatenate([averages_bar, directions]).T @ jnp.concatenate(
            [attention, logits_bar]
        )
        return logits_bar @ features.T, features_bar, None


_pool.defvjp(_forward, _backward)
