"""A transformer encoder for real data: tokens in, as many states out, a whole batch at once.

Axes: batch, token (T), width (E), head (h), feature (n), inner (n·h, which is E by default). Width stands
last, so every linear map is one large matrix product. `jax.vmap` over encoders makes a pack.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import sqrt
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from headcount.errors import InvalidInput
from headcount.models.network import Parameter, uniform
from headcount.validation import check_choice, check_integer, check_number, expected

EncoderPrecision = Literal["float32", "bfloat16"]
Mixing = Literal["attention", "mean", "none"]


@dataclass(frozen=True)
class EncoderShape:
    r"""Everything about an encoder that is not learnt: h heads of n numbers each; the width is E = n·h.

    >>> EncoderShape(heads=4, head_dim=16, layers=4, feedforward=256).parameters()
    200064
    >>> EncoderShape(heads=4, head_dim=16, layers=4, feedforward=256, residual_width=128).width
    128

    **Arguments:**

    - `heads`, `head_dim`: h and n.
    - `layers`, `feedforward`: how many layers, and the hidden width of the network in each.
    - `dropout`: the share of entries dropped in training, where a key is given.
    - `precision`: `bfloat16` computes with rounded copies of float32 parameters; what adds up many numbers
      (norms, softmax, the last states) stays in float32.
    - `residual_width`: E where it is not n·h: the width of a token between layers. Heads then map from E
      to n·h and back.
    - `mixing`: what a token reads of the others. `mean` gives all of them one mean over the tokens, a
      linear map on either side; with `none` every token stays alone.
    """

    heads: int
    head_dim: int
    layers: int
    feedforward: int
    dropout: float = 0.0
    precision: EncoderPrecision = "float32"
    residual_width: int | None = None
    mixing: Mixing = "attention"

    def __post_init__(self) -> None:
        for field in ("heads", "head_dim", "layers", "feedforward"):
            check_integer(field, getattr(self, field), at_least=1)
        check_number("dropout", self.dropout, at_least=0.0, at_most=0.9)
        check_choice("precision", self.precision, get_args(EncoderPrecision))
        check_choice("mixing", self.mixing, get_args(Mixing))
        if self.residual_width is not None:
            check_integer("residual_width", self.residual_width, at_least=1)

    @property
    def inner(self) -> int:
        """n·h: the numbers of all heads."""
        return self.heads * self.head_dim

    @property
    def width(self) -> int:
        """E: n·h unless `residual_width` says otherwise."""
        return self.inner if self.residual_width is None else self.residual_width

    @property
    def mixing_weights(self) -> int:
        """The entries of one layer's matrices that mix tokens."""
        return {"attention": 4, "mean": 2, "none": 0}[self.mixing] * self.width * self.inner

    def parameters(self) -> int:
        """How many numbers are learnt: all weights, biases and gains."""
        width, hidden = self.width, self.feedforward
        biases = {"attention": 3 * self.inner + width, "mean": self.inner + width, "none": 0}[self.mixing]
        network = (width + 1) * hidden + (hidden + 1) * width
        norm = 2 * width
        norms = norm if self.mixing == "none" else 2 * norm
        return self.layers * (self.mixing_weights + biases + network + norms) + norm

    def rounded(self, x: Float[Array, "*any"]) -> Float[Array, "*any"]:
        """The same numbers in the type that the encoder computes in."""
        return jnp.asarray(x, jnp.bfloat16) if self.precision == "bfloat16" else at_least_float32(x)


class AroundEncoder(ABC):
    """The size of a model that contains an encoder, under the names that `Architecture` has for it."""

    encoder: EncoderShape

    @property
    def heads(self) -> int:
        """H."""
        return self.encoder.heads

    @property
    def head_dim(self) -> int:
        """n: how many numbers a head has."""
        return self.encoder.head_dim

    @property
    def layers(self) -> int:
        """L."""
        return self.encoder.layers

    @property
    def width(self) -> int:
        """E: the width of a token between layers."""
        return self.encoder.width

    @property
    def encoder_hidden(self) -> tuple[int]:
        """The hidden width of the network in each layer."""
        return (self.encoder.feedforward,)

    @property
    def precision(self) -> str:
        """The precision of matrix products."""
        return self.encoder.precision

    def counted_parameters(self) -> int:
        """All parameters."""
        return self.parameters()

    def sequence(self, length: int) -> int:
        """How many tokens the encoder reads at T."""
        return length

    @abstractmethod
    def parameters(self) -> int:
        """How many numbers are learnt."""


class Linear(eqx.Module):
    """x W + b over the last axis, in the type of x."""

    weight: Float[Parameter, "inputs outputs"]
    bias: Float[Parameter, " outputs"]

    @classmethod
    def initialise(cls, inputs: int, outputs: int, random: np.random.Generator) -> "Linear":
        """Weights and biases uniform in ±1/sqrt(inputs)."""
        return cls(uniform(random, (inputs, outputs), inputs), uniform(random, (outputs,), inputs))

    def __call__(self, x: Float[Array, "*any inputs"]) -> Float[Array, "*any outputs"]:
        """The map of every vector."""
        product = at_least_float32(x @ jnp.asarray(self.weight, x.dtype))
        # The gradient of the bias is a sum over all tokens of all sequences, too long for bfloat16.
        return (product + self.bias).astype(x.dtype)


class Norm(eqx.Module):
    """gain · (x − mean) / sqrt(variance + 1e-5) + bias over the last axis, never below float32."""

    gain: Float[Parameter, " width"]
    bias: Float[Parameter, " width"]

    @classmethod
    def initialise(cls, width: int) -> "Norm":
        """Gains of 1 and biases of 0."""
        return cls(np.ones(width, np.float32), np.zeros(width, np.float32))

    def __call__(self, x: Float[Array, "*any width"]) -> Float[Array, "*any width"]:
        """The norm of every vector."""
        x = at_least_float32(x)
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean(centred**2, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + 1e-5) * self.gain + self.bias


class SelfAttention(eqx.Module):
    """W_O · concat(heads): every reader attends to every token that the mask leaves."""

    query: Linear
    key_value: Linear
    output: Linear
    shape: EncoderShape = eqx.field(static=True)

    @classmethod
    def initialise(cls, shape: EncoderShape, random: np.random.Generator) -> "SelfAttention":
        """Every map uniform in ±1/sqrt(inputs)."""
        return cls(
            Linear.initialise(shape.width, shape.inner, random),
            Linear.initialise(shape.width, 2 * shape.inner, random),
            Linear.initialise(shape.inner, shape.width, random),
            shape,
        )

    def __call__(
        self,
        readers: Float[Array, "batch reader width"],
        tokens: Float[Array, "batch token width"],
        mask: Bool[Array, "batch token"] | None,
    ) -> Float[Array, "batch reader width"]:
        """What the heads read, concatenated and projected."""
        query, key, value = self._split(readers, tokens)
        if query.dtype == jnp.float64:  # the library's softmax is in float32, whatever it is given
            read = jnp.einsum("bhrt,bthn->brhn", attention_weights(query, key, mask), value)
        else:
            there = None if mask is None else mask[:, None, None, :]
            read = jax.nn.dot_product_attention(query, key, value, mask=there)
        return self.output(read.reshape(*readers.shape[:2], self.shape.inner))

    def weights(
        self, tokens: Float[Array, "batch token width"], mask: Bool[Array, "batch token"] | None
    ) -> Float[Array, "batch head token token"]:
        """The attention weights of each head, from each token to each token."""
        query, key, _ = self._split(tokens, tokens)
        return attention_weights(query, key, mask)

    def _split(self, readers: Array, tokens: Array) -> tuple[Array, Array, Array]:
        heads, feature = self.shape.heads, self.shape.head_dim
        query = self.query(readers).reshape(*readers.shape[:2], heads, feature)
        both = self.key_value(tokens).reshape(*tokens.shape[:2], 2, heads, feature)
        return query, both[:, :, 0], both[:, :, 1]


class MeanOfTokens(eqx.Module):
    """W_O · (the mean over the tokens of W_V x): what heads read if every weight is 1/T."""

    value: Linear
    output: Linear

    @classmethod
    def initialise(cls, shape: EncoderShape, random: np.random.Generator) -> "MeanOfTokens":
        """Both maps uniform in ±1/sqrt(inputs)."""
        return cls(
            Linear.initialise(shape.width, shape.inner, random),
            Linear.initialise(shape.inner, shape.width, random),
        )

    def __call__(
        self,
        readers: Float[Array, "batch reader width"],
        tokens: Float[Array, "batch token width"],
        mask: Bool[Array, "batch token"] | None,
    ) -> Float[Array, "batch #reader width"]:
        """The same for every reader: the mean over the tokens that the mask leaves."""
        values = at_least_float32(self.value(tokens))
        there = jnp.ones(tokens.shape[:2]) if mask is None else mask
        share = (there / jnp.maximum(jnp.sum(there, axis=1, keepdims=True), 1)).astype(values.dtype)
        mean = jnp.sum(share[..., None] * values, axis=1, keepdims=True)
        return self.output(mean.astype(tokens.dtype))


class EncoderLayer(eqx.Module):
    """x + attention(norm(x)), then x + network(norm(x)); dropout on both additions.

    A shape may have a mean stand in for the attention, or nothing: then the first addition is left out.
    """

    before_attention: Norm | None
    attention: SelfAttention | MeanOfTokens | None
    before_network: Norm
    hidden: Linear
    back: Linear
    shape: EncoderShape = eqx.field(static=True)

    @classmethod
    def initialise(cls, shape: EncoderShape, random: np.random.Generator) -> "EncoderLayer":
        """One layer of the given shape."""
        kinds: dict[str, type[SelfAttention | MeanOfTokens]]
        kinds = {"attention": SelfAttention, "mean": MeanOfTokens}
        mixing = kinds.get(shape.mixing)
        return cls(
            None if mixing is None else Norm.initialise(shape.width),
            None if mixing is None else mixing.initialise(shape, random),
            Norm.initialise(shape.width),
            Linear.initialise(shape.width, shape.feedforward, random),
            Linear.initialise(shape.feedforward, shape.width, random),
            shape,
        )

    def __call__(
        self,
        tokens: Float[Array, "batch token width"],
        mask: Bool[Array, "batch token"] | None,
        key: PRNGKeyArray | None,
        read: int | None = None,
    ) -> Float[Array, "batch reader width"]:
        """The first `read` tokens after this layer (None: all); they attend to all tokens."""
        of_attention, of_network = split_key(key, 2)
        if self.attention is None or self.before_attention is None:
            tokens = tokens[:, :read]
        else:
            seen = self.before_attention(tokens).astype(tokens.dtype)
            attended = self.attention(seen[:, :read], seen, mask)
            tokens = tokens[:, :read] + dropout(attended, self.shape.dropout, of_attention)
        moved = self.back(jax.nn.gelu(self.hidden(self.before_network(tokens).astype(tokens.dtype))))
        return tokens + dropout(moved, self.shape.dropout, of_network)

    def attention_weights(
        self, tokens: Float[Array, "batch token width"], mask: Bool[Array, "batch token"] | None
    ) -> Float[Array, "batch head token token"]:
        """The attention weights of each head, from each token to each token."""
        if self.before_attention is None or not isinstance(self.attention, SelfAttention):
            raise expected("mixing", "attention, which alone has weights", self.shape.mixing)
        return self.attention.weights(self.before_attention(tokens).astype(tokens.dtype), mask)


class Encoder(eqx.Module):
    """Layers one after the other, and a last norm."""

    layers: tuple[EncoderLayer, ...]
    last: Norm
    shape: EncoderShape = eqx.field(static=True)

    @classmethod
    def initialise(cls, shape: EncoderShape, random: np.random.Generator) -> "Encoder":
        """An encoder at its random start."""
        layers = tuple(EncoderLayer.initialise(shape, random) for _ in range(shape.layers))
        return cls(layers, Norm.initialise(shape.width), shape)

    def __call__(
        self,
        tokens: Float[Array, "batch token width"],
        *,
        mask: Bool[Array, "batch token"] | None = None,
        key: PRNGKeyArray | None = None,
        read: int | None = None,
    ) -> Float[Array, "batch reader width"]:
        """The last states of the first `read` tokens (None: all), in float32.

        No token attends to one whose `mask` is False. Without a key nothing is dropped.
        """
        expect_shape("tokens", tokens, "batch", "token", self.shape.width)
        with jax.default_matmul_precision(self.shape.precision):
            *earlier, final = zip(self.layers, split_key(key, len(self.layers)), strict=True)
            states = self.shape.rounded(tokens)
            for layer, layer_key in earlier:
                states = layer(states, mask, layer_key)
            layer, layer_key = final
            return self.last(layer(states, mask, layer_key, read))

    def with_attention(
        self, tokens: Float[Array, "batch token width"], *, mask: Bool[Array, "batch token"] | None = None
    ) -> tuple[Float[Array, "batch token width"], Float[Array, "batch head token token"]]:
        """The last states, and the attention weights of the last layer, for inspection."""
        expect_shape("tokens", tokens, "batch", "token", self.shape.width)
        with jax.default_matmul_precision(self.shape.precision):
            states = self.shape.rounded(tokens)
            for layer in self.layers[:-1]:
                states = layer(states, mask, None)
            weights = self.layers[-1].attention_weights(states, mask)
            return self.last(self.layers[-1](states, mask, None)), weights


def attention_weights(
    query: Float[Array, "batch reader head feature"],
    key: Float[Array, "batch token head feature"],
    mask: Bool[Array, "batch token"] | None,
) -> Float[Array, "batch head reader token"]:
    """softmax_t( q·k(t) / sqrt(n) ) over the tokens that the mask leaves, never below float32."""
    logits = jnp.einsum("brhn,bthn->bhrt", at_least_float32(query), at_least_float32(key))
    there = None if mask is None else mask[:, None, None, :]
    return jax.nn.softmax(logits / sqrt(query.shape[-1]), axis=-1, where=there)


def dropout(x: Float[Array, "*any"], rate: float, key: PRNGKeyArray | None) -> Float[Array, "*any"]:
    """Each entry is 0 with probability `rate`, else 1/(1 − rate) times itself: the same on average."""
    if key is None or rate == 0:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def split_key(key: PRNGKeyArray | None, count: int) -> tuple[PRNGKeyArray | None, ...]:
    """`count` keys, or `count` times None."""
    return (None,) * count if key is None else tuple(jax.random.split(key, count))


def at_least_float32(x: Float[Array, "*any"]) -> Float[Array, "*any"]:
    """The same numbers in float32, or in float64 if they are."""
    x = jnp.asarray(x)
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def learnt_vectors(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Vectors that are added to tokens: normal with standard deviation 0.02, small beside a token."""
    return random.normal(scale=0.02, size=shape).astype(np.float32)


def expect_shape(name: str, array: Array, *sizes: int | str) -> None:
    """Refuse an array of another shape; a size that is a word may be any."""
    pairs = zip(array.shape, sizes, strict=False)
    if array.ndim != len(sizes) or any(size != found for found, size in pairs if isinstance(size, int)):
        wanted = ", ".join(map(str, sizes))
        raise InvalidInput(f"{name}: expected the shape [{wanted}], got {array.shape}")
