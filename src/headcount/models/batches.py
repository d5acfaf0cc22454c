"""Members of one layer over a batch of sequences, with the products that a CPU is fast at.

Under `jax.vmap` the hidden features of a batch come out in one order of axes for the scores, in another for
the averages and in a third for the gradient, and a third of a step is spent on copies. Here every product is
one of pairs of matrices, and [feature, token] of a sequence is one of them. The gradient is derived by hand.
"""

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from headcount.models.architecture import Architecture
from headcount.models.network import Network
from headcount.models.positions import place_features
from headcount.models.transformer import Folded, Padding, Transformer

Features = Float[Array, "sequence feature token"]
Averages = Float[Array, "sequence feature head"]
Weights = Float[Array, "sequence head token"]
Mask = Bool[Array, "sequence token"] | None
Residuals = tuple[Array, Array, Array | None, Features, Weights, Array, Averages]


@dataclass(frozen=True)
class Launch:
    """How kernels run: how many sequences and warps a program has; interpreted where there is no GPU."""

    sequences: int = 4
    warps: int = 1
    interpret: bool = False


# What a thread of a kernel can hold: hidden features of four tokens, a sum for each weight that it derives.
MAX_FEATURES, MAX_TOKENS, MAX_HEADS, MAX_INPUTS = 32, 128, 8, 16


def launch_of(architecture: Architecture, length: int) -> Launch | None:
    """How kernels of models/fused.py run for this shape; None where they do not fit it."""
    shape = architecture
    fits = (
        averages_features(shape)
        and shape.precision == "float32"
        and shape.encoder_hidden[0] <= MAX_FEATURES
        and shape.heads <= MAX_HEADS
        and shape.token_dim < MAX_INPUTS
        and length <= MAX_TOKENS
    )
    return Launch() if fits else None


class Batched(eqx.Module):
    """What all sequences of a step share: the folded attention, the hidden layer of P, and F.

    - `place`: what the hidden layer adds at every t, where P sees positions.
    """

    weight: Float[Array, "feature token_dim"]
    bias: Float[Array, " feature"]
    place: Float[Array, "feature token"] | None
    folded: Folded
    readout: Network
    precision: str = eqx.field(static=True)
    launch: Launch | None = eqx.field(static=True)

    @classmethod
    def of(
        cls, model: Transformer, length: int, padding: Padding | None = None, *, launch: Launch | None = None
    ) -> "Batched":
        """That of a model for sequences of this length; with a `launch` heads read in a kernel for a GPU."""
        shape = model.architecture
        weight, bias = jnp.asarray(model.encoder.weights[0]), jnp.asarray(model.encoder.biases[0])
        with jax.default_matmul_precision(shape.precision):
            folded, place = model.folded(padding), None
            if shape.positions != "none":
                place = place_features(weight[:, shape.token_dim :], length, shape)
                place *= 1 if padding is None else padding.sees_positions
        token_weight = weight[:, : shape.token_dim]
        return cls(token_weight, bias, place, folded, model.readout, shape.precision, launch)

    def __call__(
        self, x: Float[Array, "sequence token token_dim"], mask: Mask = None
    ) -> Float[Array, "sequence output"]:
        """The outputs of all sequences."""
        with jax.default_matmul_precision(self.precision):
            ones = jnp.ones((x.shape[0], 1, x.shape[1]), x.dtype)
            inputs = jnp.concatenate([jnp.matrix_transpose(x), ones], axis=1)
            weights = jnp.concatenate([self.weight, self.bias[:, None]], axis=1)
            read = self._averages(weights, inputs, mask)
            represented = jnp.einsum("ehf,sfh->es", self.folded.readers, read)
            return self.readout(represented + self.folded.constant[:, None]).T

    def _averages(self, weights: Array, inputs: Array, mask: Mask) -> Averages:
        directions = self.folded.directions
        if self.launch is None:
            return averages(weights, self.place, directions, inputs, mask, self.precision)
        from headcount.models.fused import fused_averages

        return fused_averages(weights, self.place, directions, inputs, mask, self.launch)


def averages_features(architecture: Architecture) -> bool:
    """Whether heads average hidden features of P themselves, and these are one ReLU layer of the tokens."""
    shape = architecture
    one_hidden = len(shape.encoder_hidden) == 1 and shape.encoder_activation == "relu"
    plain = shape.layers == 1 and not (shape.layer_norm or shape.bounded)
    return plain and one_hidden and shape.reader == "class token"


# JAX traces a custom gradient outside of the context of the call, hence the explicit precision.
@partial(jax.custom_vjp, nondiff_argnums=(5,))
def averages(
    weights: Float[Array, "feature inputs"],
    place: Float[Array, "feature token"] | None,
    directions: Float[Array, "head feature"],
    inputs: Float[Array, "sequence inputs token"],
    mask: Mask,
    precision: str | None,
) -> Averages:
    r"""Σ_t w_h(t) φ(t), with φ(t) = relu(W x(t) + place(t)) and w_h = softmax_t( a_h · φ(t) )."""
    return _forward(weights, place, directions, inputs, mask, precision)[0]


def _forward(
    weights: Array, place: Array | None, directions: Array, inputs: Array, mask: Mask, precision: str | None
) -> tuple[Averages, Residuals]:
    with jax.default_matmul_precision(precision):
        features = _product(_for_each(weights, inputs), inputs)
        features = jax.nn.relu(features if place is None else features + place)
        logits = _product(_for_each(directions, inputs), features)
        if mask is not None:
            logits = jnp.where(mask[:, None], logits, -jnp.inf)
        exponents = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
        scale = 1 / jnp.sum(exponents, axis=-1, keepdims=True)
        read = _over_tokens(features, exponents) * jnp.matrix_transpose(scale)
        return read, (inputs, directions, place, features, exponents, scale, read)


def _backward(
    precision: str | None, kept: Residuals, read_bar: Averages
) -> tuple[Array, Array | None, Array, None, None]:
    inputs, directions, place, features, exponents, scale, read = kept
    with jax.default_matmul_precision(precision):
        # Σ_t w(t) (ḡ · φ(t)) is ḡ · Σ_t w(t) φ(t): what was read already.
        mean = jnp.sum(read * read_bar, axis=1)[..., None]
        logits_bar = exponents * (_product(jnp.matrix_transpose(read_bar), features) - mean)
        each = jnp.matrix_transpose(scale)
        asked = jnp.concatenate([read_bar * each, directions.T * each], axis=2)
        features_bar = _product(asked, jnp.concatenate([exponents, logits_bar], axis=1))
        before_bar = jnp.where(features > 0, features_bar, 0)
        directions_bar = jnp.sum(_over_tokens(features, logits_bar * scale), axis=0).T
        weights_bar = jnp.sum(_over_tokens(inputs, before_bar), axis=0).T
        place_bar = None if place is None else jnp.sum(before_bar, axis=0)
        return weights_bar, place_bar, directions_bar, None, None


averages.defvjp(_forward, _backward)


def _for_each(matrix: Array, batch: Array) -> Array:
    """The matrix once for every sequence: products of pairs of matrices need no other order of axes."""
    return jnp.broadcast_to(matrix, (batch.shape[0], *matrix.shape))


def _product(left: Float[Array, "sequence a b"], right: Float[Array, "sequence b c"]) -> Array:
    return jax.lax.dot_general(left, right, (((2,), (1,)), ((0,), (0,))))


def _over_tokens(left: Float[Array, "sequence a token"], right: Float[Array, "sequence b token"]) -> Array:
    return jax.lax.dot_general(left, right, (((2,), (2,)), ((0,), (0,))))
