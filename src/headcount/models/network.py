"""A plain multilayer network: the encoder P and the readout F are both one of these."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

# Parameters are NumPy arrays until something is computed: thousands of models are initialised, padded and
# stacked on the host before one transfer to a device.
Parameter = Array | np.ndarray


@jax.custom_jvp
def step(x: Array) -> Array:
    """1 above 0, else 0: Heaviside's function.

    It has no gradient to train by. Derivatives of it are a straight-through estimate: those of x itself
    where |x| < 1, and 0 elsewhere (Hubara et al., Binarized Neural Networks, 2016).
    """
    return jnp.asarray(x > 0, x.dtype)


@step.defjvp
def _straight_through(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (move,) = primals, tangents
    return step(x), jnp.where(jnp.abs(x) < 1, move, jnp.zeros_like(move))


# Each of these is 0 at 0, which makes zero-padding inert: a padded hidden unit is 0, so it adds nothing,
# and its outgoing weights are 0, so it gets no gradient.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "step": step,
}


class Network(eqx.Module):
    r"""W_k · act( … act(W_1 x + b_1) … ) + b_k, over the first axis of x; a second axis may hold tokens."""

    weights: tuple[Float[Parameter, "_outputs _inputs"], ...]
    biases: tuple[Float[Parameter, "_outputs"], ...]
    activation: str = eqx.field(static=True)

    @classmethod
    def initialise(cls, sizes: Sequence[int], activation: str, random: np.random.Generator) -> "Network":
        """Weights and biases uniform in ±1/sqrt(inputs)."""
        shapes = [(outputs, inputs) for inputs, outputs in pairwise(sizes)]
        return cls(
            tuple(uniform(random, (outputs, inputs), inputs) for outputs, inputs in shapes),
            tuple(uniform(random, (outputs,), inputs) for outputs, inputs in shapes),
            activation,
        )

    def hidden(self, x: Float[Array, "inputs *token"]) -> Float[Array, "features *token"]:
        """Everything but the last affine layer."""
        activation = ACTIVATIONS[self.activation]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = activation(affine(weight, bias, x))
        return x

    def last(self, features: Float[Array, "features *token"]) -> Float[Array, "outputs *token"]:
        """The last affine layer."""
        return affine(self.weights[-1], self.biases[-1], features)

    def __call__(self, x: Float[Array, "inputs *token"]) -> Float[Array, "outputs *token"]:
        """All layers."""
        return self.last(self.hidden(x))


def affine(
    weight: Float[Parameter, "outputs inputs"],
    bias: Float[Parameter, "outputs"],
    x: Float[Array, "inputs *token"],
) -> Float[Array, "outputs *token"]:
    """W x + b, for a vector or for a vector at every token."""
    if weight.shape[0] == 1:  # XLA fuses a sum of products with its neighbours, but not a matrix kernel
        product = jnp.sum(weight.reshape(-1, *(1,) * (x.ndim - 1)) * x, axis=0, keepdims=True)
    else:
        product = jnp.asarray(weight) @ x
    return product + bias.reshape(-1, *(1,) * (x.ndim - 1))


def uniform(random: np.random.Generator, shape: tuple[int, ...], inputs: int) -> np.ndarray:
    """Uniform in ±1/sqrt(inputs), drawn by NumPy: the same on every machine, without compiling."""
    limit = 1 / np.sqrt(inputs)
    return random.uniform(-limit, limit, shape).astype(np.float32)
