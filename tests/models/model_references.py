"""The model class twice more, and the one table of architectures that all comparisons use.

`reference` is the formula in plain NumPy, one head and one token at a time. `unfolded` is the same formula
in JAX, with the key and the value of every token computed before the softmax, so that it has gradients.
Neither folds anything.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
BoolArray = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

LENGTH = 5


def small(**options: object) -> Architecture:
    sizes = {"token_dim": 3, "heads": 2, "head_dim": 4, "encoder_hidden": (6,), "readout_hidden": (5,)}
    return Architecture(**(sizes | options))  # type: ignore[arg-type]


ARCHITECTURES = {
    "the paper's": small(),
    "one head of one number": small(heads=1, head_dim=1, token_dim=1),
    "no hidden encoder layer, sharp": small(
        encoder_hidden=(), head_dim=3, beta=4.0, scale_logits=False, readout_activation="silu"
    ),
    "no hidden layers at all": small(encoder_hidden=(), readout_hidden=(), output_dim=2),
    "deep and vector-valued": small(
        encoder_hidden=(6, 4),
        readout_hidden=(5, 3),
        output_dim=3,
        encoder_activation="gelu",
        readout_activation="tanh",
    ),
    "one-hot positions": small(positions="one_hot", length=7, heads=3, head_dim=2, encoder_activation="silu"),
    "sinusoidal positions": small(
        positions="sinusoidal", encoder_activation="tanh", readout_activation="relu"
    ),
    "waves and places": small(positions="both", length=6, encoder_hidden=(5, 4)),
    "places without a hidden layer": small(positions="both", length=5, encoder_hidden=()),
    "grouped": small(heads=4, kv_heads=2, head_dim=2, beta=1.7),
    "multi-query, vector-valued": small(heads=3, kv_heads=1, output_dim=2, encoder_hidden=(4, 5)),
    "layer norm, one layer": small(layer_norm=True, beta=0.5),
    "two layers, no hidden encoder layer": small(
        layers=2, encoder_hidden=(), head_dim=3, kv_heads=1, beta=2.0, readout_activation="relu"
    ),
    "two layers with everything": small(layers=2, residual=True, layer_norm=True, feedforward=7),
    "two layers, norm and feed-forward only": small(
        layers=2, layer_norm=True, feedforward=4, head_dim=2, positions="sinusoidal", scale_logits=False
    ),
    "two layers, read in both": small(layers=2, class_reads="every", residual=True),
    "two layers with everything, read in both": small(
        layers=2, class_reads="every", residual=True, layer_norm=True, feedforward=6, kv_heads=1
    ),
    "three layers, read in all": small(
        layers=3, class_reads="every", head_dim=2, feedforward=3, output_dim=2, beta=1.5
    ),
    "one layer, norm, read in all": small(layer_norm=True, class_reads="every"),
    "three grouped layers": small(
        layers=3, heads=4, head_dim=1, kv_heads=2, residual=True, positions="one_hot", length=5, output_dim=2
    ),
    "one layer, read at the last token": small(reader="last token", beta=1.5),
    "two causal layers with everything, read at the last token": small(
        layers=2, reader="last token", causal=True, residual=True, layer_norm=True, feedforward=6
    ),
    "three causal layers in a window, read at the last token": small(
        layers=3,
        reader="last token",
        causal=True,
        window=1,
        head_dim=2,
        residual=True,
        positions="sinusoidal",
    ),
    "a window and a global token, read in both": small(
        layers=2, class_reads="every", window=1, global_tokens=1, residual=True
    ),
    "strides, read once": small(layers=3, stride=2, head_dim=2, layer_norm=True),
    "causal strides in a window with global tokens": small(
        layers=2, causal=True, window=1, stride=3, global_tokens=2, class_reads="every", feedforward=3
    ),
    "one sparse layer, read at the last token": small(
        reader="last token", window=1, global_tokens=1, layer_norm=True, positions="one_hot", length=6
    ),
    "a stream wider than the heads": small(residual_width=11),
    "a stream narrower than the heads": small(
        residual_width=5, layers=2, residual=True, layer_norm=True, feedforward=4, class_reads="every"
    ),
    "grouped, a stream of its own": small(
        heads=4, kv_heads=2, head_dim=2, residual_width=7, layers=2, causal=True, reader="last token"
    ),
    "bounded": small(bounded=True, readout_activation="relu", beta=3.0, positions="sinusoidal"),
    "bounded, without a hidden encoder layer": small(
        bounded=True, readout_activation="tanh", encoder_hidden=(), kv_heads=1
    ),
    "bounded, a step in F": small(bounded=True, readout_activation="step"),
    "bounded, a deep F": small(bounded=True, readout_activation="relu", readout_hidden=(5, 4, 3, 2)),
}


def double(tree: Transformer) -> Transformer:
    """The same model with float64 leaves."""
    doubled: Transformer = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), tree)
    return doubled


@dataclass(frozen=True)
class Reading:
    """Everything that a model computes of one sequence."""

    output: FloatArray
    representation: FloatArray
    weights: FloatArray


def reference(
    model: Transformer, x: FloatArray, mask: BoolArray | None = None, head_mask: BoolArray | None = None
) -> Reading:
    """F( c + W_O concat_i Σ_t softmax_t( β (W_Q,i c)·(W_K,i x̂(t)) ) W_V,i x̂(t) ), as it stands.

    The reader c is the class token, which sees all that the mask leaves, or the last token that it leaves.
    """
    shape = model.architecture
    visible = [t for t in range(len(x)) if mask is None or mask[t]]
    kept = [i for i in range(shape.heads) if head_mask is None or head_mask[i]]
    tokens = [
        _network(model.encoder, _token(x[t], t, shape), shape.encoder_activation) for t in range(len(x))
    ]
    class_token = np.asarray(model.class_token)
    if shape.bounded:
        tokens = [token / max(1.0, np.linalg.norm(token)) for token in tokens]
    for layer in model.token_layers:
        after = _token_layer(layer, tokens, shape, visible, kept)
        if shape.class_reads == "every":
            class_token = _class_after(layer, class_token, tokens, shape, visible, kept)
        tokens = after
    if shape.reader == "last token":
        reader, visible = tokens[visible[-1]], _seen_by(visible[-1], visible, shape)
    else:
        reader = class_token
    tokens = _normalised(tokens, shape)
    constant = shape.reader == "class token" and shape.class_reads == "last"
    asking = reader if constant else _normalised([reader], shape)[0]
    every_head = [_head(model.attention, i, asking, tokens, visible, shape) for i in range(shape.heads)]
    representation = reader.copy()
    for i in kept:
        representation += np.asarray(model.attention.output)[:, i, :] @ every_head[i][0]
    output = _network(model.readout, representation, shape.readout_activation)
    return Reading(output, representation, np.array([weights for _, weights in every_head]))


def may_look(t: int, s: int, shape: Architecture) -> bool:
    """Whether token t may attend to token s."""
    if shape.causal and s > t:
        return False
    if (shape.window is None and shape.stride is None) or s == t:
        return True
    if shape.window is not None and abs(s - t) <= shape.window:
        return True
    if shape.stride is not None and abs(s - t) % shape.stride == 0:
        return True
    return s < shape.global_tokens or t < shape.global_tokens


def _seen_by(t: int, visible: list[int], shape: Architecture) -> list[int]:
    return [s for s in visible if may_look(t, s, shape)]


def _token(x: FloatArray, t: int, shape: Architecture) -> FloatArray:
    """x(t) and what the encoder reads about t."""
    if shape.positions == "none":
        return x
    places = [float(place == t) for place in range(shape.length or 0)]
    if shape.positions == "one_hot":
        return np.array([*x, *places])
    wavelengths = [4, 8, 16, 32, 64, 128, 256, 512]
    sines = [math.sin(2 * math.pi * t / wavelength) for wavelength in wavelengths]
    cosines = [math.cos(2 * math.pi * t / wavelength) for wavelength in wavelengths]
    return np.array([*x, *sines, *cosines, *(places if shape.positions == "both" else ())])


def _activation(name: str, value: float) -> float:
    if name == "relu":
        return max(value, 0.0)
    if name == "tanh":
        return math.tanh(value)
    if name == "silu":
        return value / (1 + math.exp(-value))
    if name == "step":
        return float(value > 0)
    # GELU by its tanh formula (Hendrycks and Gimpel, 2016).
    return 0.5 * value * (1 + math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3)))


def _network(network: object, vector: FloatArray, activation: str) -> FloatArray:
    layers = list(zip(network.weights, network.biases, strict=True))  # type: ignore[attr-defined]
    for place, (weight, bias) in enumerate(layers):
        vector = np.asarray(weight) @ vector + np.asarray(bias)
        if place < len(layers) - 1:
            vector = np.array([_activation(activation, value) for value in vector])
    return vector


def _head(
    attention: object,
    i: int,
    reader: FloatArray,
    tokens: list[FloatArray],
    visible: list[int],
    shape: Architecture,
) -> tuple[FloatArray, FloatArray]:
    """What head i reads when `reader` looks at the visible tokens, and its weight on every token."""
    query, key, value = (np.asarray(getattr(attention, name)) for name in ("query", "key", "value"))
    group = i // (shape.heads // (shape.kv_heads or shape.heads))
    sharpness = shape.beta / math.sqrt(shape.head_dim) if shape.scale_logits else shape.beta
    asked = query[i] @ reader
    logits = {t: sharpness * float(asked @ (key[group] @ tokens[t])) for t in visible}
    masses = {t: math.exp(logit - max(logits.values())) for t, logit in logits.items()}
    weights = np.zeros(len(tokens))
    read = np.zeros(shape.head_dim)
    for t in visible:
        weights[t] = masses[t] / sum(masses.values())
        read += weights[t] * (value[group] @ tokens[t])
    return read, weights


def _normalised(tokens: list[FloatArray], shape: Architecture) -> list[FloatArray]:
    if not shape.layer_norm:
        return tokens
    return [(token - token.mean()) / math.sqrt(token.var() + 1e-5) for token in tokens]


def _token_layer(
    layer: object, tokens: list[FloatArray], shape: Architecture, visible: list[int], kept: list[int]
) -> list[FloatArray]:
    """Every token reads the tokens that it sees; then, if asked, a network of each token alone.

    What becomes of a hidden token does not matter: nobody reads it.
    """
    attention, network = layer.attention, layer.feedforward  # type: ignore[attr-defined]
    seen = _normalised(tokens, shape)
    moved = []
    for t, token in enumerate(seen):
        after = np.zeros(shape.width)
        for i in kept if t in visible else ():
            read, _ = _head(attention, i, token, seen, _seen_by(t, visible, shape), shape)
            after += np.asarray(attention.output)[:, i, :] @ read
        moved.append(after)
    if shape.residual:
        moved = [token + after for token, after in zip(tokens, moved, strict=True)]
    if not shape.feedforward:
        return moved
    fed = [_network(network, token, shape.readout_activation) for token in _normalised(moved, shape)]
    return [token + after for token, after in zip(moved, fed, strict=True)] if shape.residual else fed


def _class_after(
    layer: object,
    class_token: FloatArray,
    tokens: list[FloatArray],
    shape: Architecture,
    visible: list[int],
    kept: list[int],
) -> FloatArray:
    """The class token adds what it reads of the tokens before the layer; then comes the network, if any."""
    attention, network = layer.attention, layer.feedforward  # type: ignore[attr-defined]
    seen, (reader,) = _normalised(tokens, shape), _normalised([class_token], shape)
    after = class_token.copy()
    for i in kept:
        after += np.asarray(attention.output)[:, i, :] @ _head(attention, i, reader, seen, visible, shape)[0]
    if not shape.feedforward:
        return after
    fed = _network(network, _normalised([after], shape)[0], shape.readout_activation)
    return after + fed if shape.residual else fed


def unfolded(
    model: Transformer, x: Array, mask: Array | None = None, head_mask: Array | None = None
) -> Array:
    """The same in JAX, tokens as rows: all keys, all values, softmax, sum."""
    shape = model.architecture
    positions = jnp.asarray([_token(np.zeros(0), t, shape) for t in range(len(x))])
    rows = _layers(model.encoder, jnp.concatenate([x, positions], axis=1), shape.encoder_activation)
    if shape.bounded:
        rows /= jnp.maximum(jnp.linalg.norm(rows, axis=1, keepdims=True), 1)
    reader = jnp.asarray(model.class_token)[None]
    gathers = shape.class_reads == "every"
    everything = jnp.ones(len(x), bool) if mask is None else mask
    looks = jnp.array([[may_look(t, s, shape) for s in range(len(x))] for t in range(len(x))])
    for layer in model.token_layers:
        seen = _norm(rows, shape)
        moved = _attend(layer.attention, seen, seen, looks & everything, head_mask, shape)
        rows = _fed(layer, rows + moved if shape.residual else moved, shape)
        if gathers:
            read = _attend(layer.attention, _norm(reader, shape), seen, everything, head_mask, shape)
            reader = _fed(layer, reader + read, shape)
    if shape.reader == "last token":
        last = jnp.max(jnp.where(everything, np.arange(len(x)), 0))
        reader, everything, gathers = rows[last][None], looks[last] & everything, True
    asking = _norm(reader, shape) if gathers else reader
    read = _attend(model.attention, asking, _norm(rows, shape), everything, head_mask, shape)
    return _layers(model.readout, reader + read, shape.readout_activation)[0]


def _fed(layer: object, rows: Array, shape: Architecture) -> Array:
    if layer.feedforward is None:  # type: ignore[attr-defined]
        return rows
    network = layer.feedforward  # type: ignore[attr-defined]
    fed = _layers(network, _norm(rows, shape), shape.readout_activation)
    return rows + fed if shape.residual else fed


def _layers(network: object, rows: Array, activation: str) -> Array:
    function = {
        **{"relu": jax.nn.relu, "gelu": jax.nn.gelu, "tanh": jnp.tanh, "silu": jax.nn.silu},
        "step": through,
    }[activation]
    weights, biases = network.weights, network.biases  # type: ignore[attr-defined]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        rows = function(rows @ jnp.asarray(weight).T + bias)
    return rows @ jnp.asarray(weights[-1]).T + biases[-1]


def through(x: Array) -> Array:
    """A step, with the slope of x itself where |x| < 1: clip(x) less a constant, as far as slopes go."""
    slope = jnp.clip(x, -1, 1)
    return slope + jax.lax.stop_gradient((x > 0).astype(x.dtype) - slope)


def _norm(rows: Array, shape: Architecture) -> Array:
    if not shape.layer_norm:
        return rows
    centred = rows - rows.mean(axis=1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)


def _attend(
    attention: object,
    readers: Array,
    rows: Array,
    mask: Array,
    head_mask: Array | None,
    shape: Architecture,
) -> Array:
    query, key, value, output = (
        jnp.asarray(getattr(attention, name)) for name in ("query", "key", "value", "output")
    )
    sharpness = shape.beta / math.sqrt(shape.head_dim) if shape.scale_logits else shape.beta
    group = np.arange(shape.heads) // (shape.heads // (shape.kv_heads or shape.heads))
    keys = jnp.einsum("te,hne->htn", rows, key[group])
    values = jnp.einsum("te,hne->htn", rows, value[group])
    logits = sharpness * jnp.einsum("re,hne,htn->hrt", readers, query, keys)
    # Finite, so that a hidden token that sees nothing is a number.
    weights = jax.nn.softmax(jnp.where(mask, logits, -1e30), axis=2)
    read = weights @ values
    if head_mask is not None:
        read = jnp.where(head_mask[:, None, None], read, 0.0)
    return jnp.einsum("hrn,ehn->re", read, output)
