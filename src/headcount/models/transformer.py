"""The paper's model class on one screen.

Axes: token (T), width (E), head (h), feature (n), group (key-value heads). Tokens stand last:
P(x) is a matrix [width, token], as in W x. A model takes one sequence; `jax.vmap` over sequences makes a
batch, and over models makes a pack.
"""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from headcount.models.architecture import Architecture
from headcount.models.network import Network, Parameter, uniform
from headcount.models.pooling import Pool, pool, softmax
from headcount.models.pooling import weights as pooling_weights
from headcount.models.positions import encoder_features, starting_blind, visible
from headcount.validation import expected

if TYPE_CHECKING:
    from headcount.models.torch_module import TorchTransformer


class Padding(eqx.Module):
    """The real size of a model with zero-padded arrays: the few numbers that padding would change."""

    logit_scale: Float[Parameter, ""]
    width: Int[Parameter, ""]
    sees_positions: Float[Parameter, ""]

    @classmethod
    def of(cls, architecture: Architecture) -> "Padding":
        """The real size of an architecture."""
        return cls(
            logit_scale=np.asarray(architecture.logit_scale, np.float32),
            width=np.asarray(architecture.width, np.int32),
            sees_positions=np.asarray(architecture.positions != "none", np.float32),
        )


class Attention(eqx.Module):
    """The factors W_Q, W_K, W_V (per head) and W_O of one attention block."""

    query: Float[Parameter, "head feature width"]
    key: Float[Parameter, "group feature width"]
    value: Float[Parameter, "group feature width"]
    output: Float[Parameter, "width head feature"]

    @classmethod
    def initialise(cls, architecture: Architecture, random: np.random.Generator) -> "Attention":
        """Every factor uniform in ±1/sqrt(inputs): the width, or n·h numbers of all heads for W_O."""
        width, feature = architecture.width, architecture.head_dim
        joined = architecture.heads * feature
        queries = (architecture.heads, feature, width)
        groups = (architecture.key_value_heads, feature, width)
        output = (width, architecture.heads, feature)
        query, key, value = (uniform(random, shape, width) for shape in (queries, groups, groups))
        return cls(query, key, value, uniform(random, output, joined))

    def per_query_head(self) -> tuple[Float[Array, "head feature width"], Float[Array, "head feature width"]]:
        """Keys and values, repeated for each query head of a group."""
        group_size = self.query.shape[0] // self.key.shape[0]
        return jnp.repeat(self.key, group_size, axis=0), jnp.repeat(self.value, group_size, axis=0)


class Folded(NamedTuple):
    """An attention block with one query c, folded into three arrays.

    - `directions`: the vector by which each head scores features, β W_K,iᵀ W_Q,i c.
    - `readers`: the map from a head's average of features to what it adds to the representation, W_O,i W_V,i.
    - `constant`: the rest of the representation, the reader and the contribution of the bias of P.
    """

    directions: Float[Array, "head feature"]
    readers: Float[Array, "width head feature"]
    constant: Float[Array, " width"]


class TokenLayer(eqx.Module):
    """Tokens attend to tokens, T×T; then, if there is one, a feed-forward network of each token.

    Where the class token attends in every layer, it shares the keys, the values and the network.
    """

    attention: Attention
    feedforward: Network | None
    architecture: Architecture = eqx.field(static=True)

    @classmethod
    def initialise(cls, architecture: Architecture, random: np.random.Generator) -> "TokenLayer":
        """One layer of the given architecture."""
        width, hidden = architecture.width, architecture.feedforward
        attention = Attention.initialise(architecture, random)
        sizes, activation = (width, hidden, width), architecture.readout_activation
        network = Network.initialise(sizes, activation, random) if hidden else None
        return cls(attention, network, architecture)

    def __call__(
        self,
        tokens: Float[Array, "width token"],
        class_token: Float[Array, " width"],
        mask: Bool[Array, " token"] | None,
        head_mask: Bool[Array, " head"] | None,
        padding: Padding | None,
    ) -> tuple[Float[Array, "width token"], Float[Array, " width"]]:
        """Tokens and class token after this layer."""
        seen = self._normalise(tokens, padding)
        attended = self._attend(seen, seen, self._visible(tokens, mask), head_mask, padding)
        after = self._feed(tokens + attended if self.architecture.residual else attended, padding)
        if self.architecture.class_reads == "last" or self.architecture.reader == "last token":
            return after, class_token
        reader = class_token[:, None]
        read = self._attend(self._normalise(reader, padding), seen, mask, head_mask, padding)
        return after, self._feed(reader + read, padding)[:, 0]

    def _visible(self, tokens: Array, mask: Array | None) -> Array | None:
        """Mask and visibility in one; a hidden token sees itself, so that no row is empty."""
        length = tokens.shape[1]
        seen = visible(length, self.architecture)
        if seen is None or mask is None:
            return mask if seen is None else jnp.asarray(seen)
        return (jnp.asarray(seen) & mask) | np.eye(length, dtype=bool)

    def _normalise(self, tokens: Array, padding: Padding | None) -> Array:
        return layer_norm(tokens, padding) if self.architecture.layer_norm else tokens

    def _feed(self, tokens: Array, padding: Padding | None) -> Array:
        if self.feedforward is None:
            return tokens
        moved = self.feedforward(self._normalise(tokens, padding))
        return tokens + moved if self.architecture.residual else moved

    def _attend(
        self,
        readers: Float[Array, "width reader"],
        tokens: Float[Array, "width token"],
        mask: Array | None,
        head_mask: Array | None,
        padding: Padding | None,
    ) -> Float[Array, "width reader"]:
        """One product for the features of all heads: a GPU is slow at many small ones."""
        heads, feature, width = self.attention.query.shape
        keys_and_values = jnp.stack(self.attention.per_query_head()).reshape(-1, width)
        query = (self.attention.query.reshape(-1, width) @ readers).reshape(heads, feature, -1)
        key, value = (keys_and_values @ tokens).reshape(2, heads, feature, -1)
        query *= self.architecture.logit_scale if padding is None else padding.logit_scale
        weights = softmax(jnp.einsum("hnr,hnt->hrt", query, key), mask)
        read = jnp.einsum("hrt,hnt->hnr", weights, value)
        joined = keep(read, head_mask).reshape(heads * feature, -1)
        return jnp.asarray(self.attention.output).reshape(width, -1) @ joined


class Transformer(eqx.Module):
    r"""y = F( c0 + W_O · concat_i Σ_t softmax_t( β (W_Q,i c0)·(W_K,i P(x(t), t)) ) · W_V,i P(x(t), t) )

    Only the class token c0 is read, and with one layer it does not depend on the input. So a head's query and
    key fold into one vector, W_K,iᵀ W_Q,i c0; tokens are averaged before they are projected; and where the
    last layer of P is all that stands between its hidden features and the attention, the features
    themselves are scored and averaged. The cost is T·N·(d + 2h) with no T×T matrix. The factors stay
    the parameters, so training is that of the formula above.
    """

    encoder: Network
    token_layers: tuple[TokenLayer, ...]
    class_token: Float[Parameter, " width"]
    attention: Attention
    readout: Network
    architecture: Architecture = eqx.field(static=True)

    @classmethod
    def initialise(cls, architecture: Architecture, *, seed: int) -> "Transformer":
        """A model with random parameters: the same for the same seed on every machine."""
        random = np.random.default_rng(seed)
        activations = architecture.encoder_activation, architecture.readout_activation
        encoder = Network.initialise(architecture.encoder_sizes, activations[0], random)
        if architecture.positions_start == "zero":
            encoder = starting_blind(encoder, architecture.token_dim)
        return cls(
            encoder,
            tuple(TokenLayer.initialise(architecture, random) for _ in range(architecture.layers - 1)),
            random.normal(size=architecture.width).astype(np.float32),
            Attention.initialise(architecture, random),
            Network.initialise(architecture.readout_sizes, activations[1], random),
            architecture,
        )

    def __call__(
        self,
        x: Float[Array, "token token_dim"],
        *,
        mask: Bool[Array, " token"] | None = None,
        head_mask: Bool[Array, " head"] | None = None,
        padding: Padding | None = None,
        pool: Pool = pool,
    ) -> Float[Array, " output"]:
        """The output for one sequence. `mask` hides tokens, `head_mask` removes heads (where False)."""
        with jax.default_matmul_precision(self.architecture.precision):
            return self.readout(self._represent(x, mask, head_mask, padding, pool))

    def representation(
        self,
        x: Float[Array, "token token_dim"],
        *,
        mask: Bool[Array, " token"] | None = None,
        head_mask: Bool[Array, " head"] | None = None,
    ) -> Float[Array, " width"]:
        """c0 + W_O · concat(heads): all that the readout sees of the sequence."""
        with jax.default_matmul_precision(self.architecture.precision):
            return self._represent(x, mask, head_mask, None, pool)

    def attention_weights(
        self, x: Float[Array, "token token_dim"], *, mask: Bool[Array, " token"] | None = None
    ) -> Float[Array, "head token"]:
        """The attention weights of each head of the last layer."""
        with jax.default_matmul_precision(self.architecture.precision):
            features, lift, reader, mask = self._features(x, mask, None, None)
            return pooling_weights(self._fold(lift, reader, None, None).directions, features, mask)

    def scores_and_values(
        self, x: Float[Array, "token token_dim"]
    ) -> tuple[Float[Array, "head token"], Float[Array, "head feature token"]]:
        """Each head's logits and values for each token: with one layer, all that the output depends on.

        A token that the reader cannot see has the logit −∞.
        """
        with jax.default_matmul_precision(self.architecture.precision):
            features, lift, reader, seen = self._features(x, None, None, None)
            tokens = features if lift is None else lift.last(features)
            _, values = self.attention.per_query_head()
            scores = self._fold(None, reader, None, None).directions @ tokens
            if seen is not None:
                scores = jnp.where(seen, scores, -jnp.inf)
            return scores, jnp.einsum("hnw,wt->hnt", values, tokens)

    def folded(self, padding: Padding | None = None) -> Folded:
        """The attention block of a single layer, folded into the last layer of P."""
        return self._fold(self.encoder, jnp.asarray(self.class_token), None, padding)

    def counted_parameters(self) -> int:
        """M, by the paper's rule."""
        return self.architecture.counted_parameters()

    def save(self, path: str | Path) -> None:
        """Write the model to one .npz file, without pickle; `Transformer.load` reads it back exactly."""
        from headcount.models import saving

        saving.save(self, self.architecture, path)

    @classmethod
    def load(cls, path: str | Path) -> "Transformer":
        """The model that `save` wrote."""
        from headcount.models import saving

        return saving.load(path, lambda architecture: cls.initialise(architecture, seed=0))

    def to_torch(self) -> "TorchTransformer":
        """The same function as a `torch.nn.Module` over a batch: x [batch, token, token_dim], mask.

        Its parameters are copies, in the same type. `benchmarks/torch_module.py` checks that both agree.
        """
        if self.architecture.precision != "float32":
            # PyTorch has no precision of one module's products: torch.set_float32_matmul_precision is global.
            raise expected("precision", "float32 for a PyTorch module", self.architecture.precision)
        from headcount.extras import needed
        from headcount.models.saving import named_leaves

        needed("torch", extra="torch", purpose="to_torch")
        from headcount.models.torch_module import TorchTransformer

        return TorchTransformer.of(self.architecture, named_leaves(self))

    def _represent(
        self, x: Array, mask: Array | None, head_mask: Array | None, padding: Padding | None, pool: Pool
    ) -> Array:
        features, lift, reader, mask = self._features(x, mask, head_mask, padding)
        folded = self._fold(lift, reader, head_mask, padding)
        averages = pool(folded.directions, features, mask)
        return jnp.einsum("ehf,hf->e", folded.readers, averages) + folded.constant

    def _features(
        self, x: Array, mask: Array | None, head_mask: Array | None, padding: Padding | None
    ) -> tuple[Float[Array, "feature token"], Network | None, Float[Array, " width"], Array | None]:
        """What the last attention averages, the network that gives tokens, the reader and its mask."""
        sees_positions = None if padding is None else padding.sees_positions
        hidden = encoder_features(self.encoder, x, self.architecture, sees_positions)
        class_token = jnp.asarray(self.class_token)
        shape = self.architecture
        plain = not (self.token_layers or shape.layer_norm or shape.bounded)
        if plain and shape.reader == "class token":
            return hidden, self.encoder, class_token, mask
        tokens = self.encoder.last(hidden)
        if shape.bounded:
            return into_unit_ball(tokens), None, class_token, mask
        for layer in self.token_layers:
            tokens, class_token = layer(tokens, class_token, mask, head_mask, padding)
        seen = layer_norm(tokens, padding) if shape.layer_norm else tokens
        if shape.reader == "class token":
            return seen, None, class_token, mask
        last = x.shape[0] - 1 - (0 if mask is None else jnp.argmax(mask[::-1]))
        table = visible(x.shape[0], shape)
        if table is not None:
            mask = jnp.asarray(table)[last] if mask is None else jnp.asarray(table)[last] & mask
        return seen, None, tokens[:, last], mask

    def _fold(
        self, lift: Network | None, reader: Array, head_mask: Array | None, padding: Padding | None
    ) -> Folded:
        """The attention block as three arrays, folded into the last layer of P where that is `lift`."""
        keys, values = self.attention.per_query_head()
        values = keep(values, head_mask)
        asking = reader
        if self.architecture.reads_every_layer and self.architecture.layer_norm:
            asking = layer_norm(reader[:, None], padding)[:, 0]
        query = jnp.sum(self.attention.query * asking, axis=-1)
        directions = jnp.sum(keys * query[..., None], axis=1)
        directions *= self.architecture.logit_scale if padding is None else padding.logit_scale
        constant = reader
        if lift is not None:
            # The bias of P is the weight of a feature that is 1 for every token. It adds the same number to
            # every logit, which the softmax ignores, and a constant to what is read.
            affine = jnp.concatenate([lift.weights[-1], lift.biases[-1][:, None]], axis=1)
            carried = jnp.concatenate([directions[:, None], values], axis=1) @ affine
            directions, values, read = carried[:, 0, :-1], carried[:, 1:, :-1], carried[:, 1:, -1]
            constant += jnp.einsum("ehn,hn->e", self.attention.output, read)
        return Folded(directions, jnp.einsum("ehn,hnf->ehf", self.attention.output, values), constant)


def keep(read: Float[Array, "head *rest"], head_mask: Bool[Array, " head"] | None) -> Array:
    """What the heads read, zero for those masked out."""
    if head_mask is None:
        return read
    return jnp.where(head_mask.reshape(-1, *(1,) * (read.ndim - 1)), read, 0)


def layer_norm(tokens: Float[Array, "width token"], padding: Padding | None) -> Float[Array, "width token"]:
    """(x − mean) / sqrt(variance + 1e-5) over the real width, without gains; padding stays zero."""
    width = tokens.shape[0] if padding is None else padding.width
    real = jnp.arange(tokens.shape[0])[:, None] < width
    # Padding is 0 and does not change the mean, but without the mask it would get a gradient.
    mean = jnp.sum(jnp.where(real, tokens, 0), axis=0) / width
    centred = jnp.where(real, tokens - mean, 0)
    variance = jnp.sum(centred**2, axis=0) / width
    return centred / jnp.sqrt(variance + 1e-5)


def into_unit_ball(tokens: Float[Array, "width token"]) -> Float[Array, "width token"]:
    """X / max(1, |x|_2)."""
    return tokens / jnp.sqrt(jnp.maximum(1, jnp.sum(tokens**2, axis=0)))
