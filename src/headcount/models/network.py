"""A plain multilayer network: the encoder P and the readout F are both one of these."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

# Parameters are NumPy arrays until something is computed: starts are drawn, padded and stacked by the
# thousand on the host before they travel to a device once.
Parameter = Array | np.ndarray

# Every one of these is 0 at 0. That is what makes zero-padding inert: a padded hidden unit is 0, so
# nothing flows out of it, and its outgoing weights are 0, so nothing flows back into it.
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": jax.nn.gelu,
    "tanh": jax.numpy.tanh,
    "silu": jax.nn.silu,
}


class Network(eqx.Module):
    r"""W_k · act( … act(W_1 x + b_1) … ) + b_k, over the last axis of x."""

    weights: tuple[Float[Parameter, "outputs inputs"], ...]
    biases: tuple[Float[Parameter, "outputs"], ...]
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

    def hidden(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch features"]:
        """Everything but the last affine layer."""
        activation = ACTIVATIONS[self.activation]
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = activation(x @ weight.T + bias)
        return x

    def last(self, features: Float[Array, "*batch features"]) -> Float[Array, "*batch outputs"]:
        """The last affine layer."""
        return features @ self.weights[-1].T + self.biases[-1]

    def __call__(self, x: Float[Array, "*batch inputs"]) -> Float[Array, "*batch outputs"]:
        """All layers."""
        return self.last(self.hidden(x))


def uniform(random: np.random.Generator, shape: tuple[int, ...], inputs: int) -> np.ndarray:
    """Uniform in ±1/sqrt(inputs), drawn by NumPy: the same on every machine, and nothing to compile."""
    limit = 1 / np.sqrt(inputs)
    return random.uniform(-limit, limit, shape).astype(np.float32)
