"""The encoder beside a plain NumPy one, and what must hold for every batch.

`reference` is the formula in float64, one sequence, one head and one token at a time.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array
from model_evaluation import QUICKLY
from model_references import BoolArray, FloatArray

from headcount.errors import InvalidInput
from headcount.models.encoder import Encoder, EncoderLayer, EncoderShape, Linear, Norm, dropout, split_key

Model = TypeVar("Model")

CLOSE = {"rtol": 1e-10, "atol": 1e-10}
BATCH, LENGTH = 2, 5

SHAPES = {
    "two heads, two layers": EncoderShape(heads=2, head_dim=3, layers=2, feedforward=7),
    "one head of one number": EncoderShape(heads=1, head_dim=1, layers=1, feedforward=1),
    "three small heads": EncoderShape(heads=3, head_dim=1, layers=3, feedforward=2),
    "one large head": EncoderShape(heads=1, head_dim=6, layers=1, feedforward=4),
    "heads wider than the residual": EncoderShape(3, 2, 2, 7, residual_width=4),
    "heads narrower than it": EncoderShape(2, 1, 2, 3, residual_width=5),
}
every_shape = pytest.mark.parametrize("name", SHAPES)
with_and_without_mask = pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])


def stirred(model: Model) -> Model:
    """The model in float64 with every entry moved: gains are no longer 1, nor biases 0."""
    random = np.random.default_rng(5)
    moved: Model = jax.tree.map(lambda leaf: leaf + random.normal(scale=0.3, size=leaf.shape), model)
    return moved


def stacked(models: list[Model]) -> Model:
    """One model with a first axis over the given ones."""
    joined: Model = jax.tree.map(lambda *leaves: np.stack(leaves), *models)
    return joined


def entries(tree: object) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(tree))


def in_double(program: Callable[..., Any], *arguments: object) -> Any:
    """The program compiled and run in float64."""
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(program, compiler_options=QUICKLY)(*arguments))


def linear(layer: Linear, vector: FloatArray) -> FloatArray:
    return np.asarray(layer.weight).T @ vector + np.asarray(layer.bias)


def normed(norm: Norm, vector: FloatArray) -> FloatArray:
    centred = vector - vector.mean()
    scaled = centred / np.sqrt((centred**2).mean() + 1e-5)
    return np.asarray(norm.gain) * scaled + np.asarray(norm.bias)


def gelu(vector: FloatArray) -> FloatArray:
    """By its tanh formula (Hendrycks and Gimpel, 2016)."""
    inner: FloatArray = np.tanh(np.sqrt(2 / np.pi) * (vector + 0.044715 * vector**3))
    return 0.5 * vector * (1 + inner)


def layer_reference(
    layer: EncoderLayer, tokens: list[FloatArray], there: BoolArray
) -> tuple[list[FloatArray], FloatArray]:
    """The tokens after one layer, and its attention weights [head, token, token]."""
    heads, feature, inner = layer.shape.heads, layer.shape.head_dim, layer.shape.inner
    seen = [normed(layer.before_attention, token) for token in tokens]
    query = [linear(layer.attention.query, token) for token in seen]
    key = [linear(layer.attention.key_value, token)[:inner] for token in seen]
    value = [linear(layer.attention.key_value, token)[inner:] for token in seen]
    weights = np.zeros((heads, len(tokens), len(tokens)))
    after = []
    for reader, token in enumerate(tokens):
        read = np.zeros(inner)
        for head in range(heads):
            part = slice(head * feature, (head + 1) * feature)
            for t in np.flatnonzero(there):
                weights[head, reader, t] = np.exp(query[reader][part] @ key[t][part] / np.sqrt(feature))
            weights[head, reader] /= weights[head, reader].sum()
            for t in np.flatnonzero(there):
                read[part] += weights[head, reader, t] * value[t][part]
        token = token + linear(layer.attention.output, read)
        hidden = gelu(linear(layer.hidden, normed(layer.before_network, token)))
        after.append(token + linear(layer.back, hidden))
    return after, weights


def reference(
    encoder: Encoder, tokens: FloatArray, mask: BoolArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """The last states, and the last layer's attention weights, of a batch."""
    states, looks = [], []
    for number, sequence in enumerate(tokens):
        there = np.ones(len(sequence), bool) if mask is None else mask[number]
        here = list(sequence)
        for layer in encoder.layers:
            here, weights = layer_reference(layer, here, there)
        states.append([normed(encoder.last, token) for token in here])
        looks.append(weights)
    return np.array(states), np.array(looks)


def assert_gradients_are_slopes(
    gradient: Model, model: Model, scalar: Callable[[Model], float], entries_each: int = 2
) -> None:
    """A few entries of every array, beside differences of a plain formula."""
    random, step = np.random.default_rng(0), 1e-5
    leaves, structure = jax.tree.flatten(model)
    for place, (path, slopes) in enumerate(jax.tree.leaves_with_path(gradient)):
        for entry in random.integers(leaves[place].size, size=entries_each):

            def moved(by: float, place: int = place, entry: int = entry) -> float:
                changed = [leaf.copy() for leaf in leaves]
                changed[place].flat[entry] += by
                return scalar(jax.tree.unflatten(structure, changed))

            slope = (moved(step) - moved(-step)) / (2 * step)
            where = f"{jax.tree_util.keystr(path)}, entry {entry}"
            np.testing.assert_allclose(slopes.flat[entry], slope, rtol=1e-5, atol=1e-7, err_msg=where)


@lru_cache
def encoder(name: str) -> Encoder:
    return stirred(Encoder.initialise(SHAPES[name], np.random.default_rng(3)))


def tokens(name: str) -> FloatArray:
    return np.random.default_rng(4).normal(size=(BATCH, LENGTH, SHAPES[name].width))


def token_mask() -> BoolArray:
    return np.array([[True, False, True, True, False], [False, True, True, False, True]])


def _read(encoder: Encoder, tokens: Array, mask: Array | None) -> tuple[Array, Array]:
    return encoder(tokens, mask=mask), encoder.with_attention(tokens, mask=mask)


@every_shape
@with_and_without_mask
def test_states_and_weights_are_those_of_the_plain_formula(name: str, masked: bool) -> None:
    mask = token_mask() if masked else None
    expected, expected_weights = reference(encoder(name), tokens(name), mask)
    states, (again, weights) = in_double(_read, encoder(name), tokens(name), mask)
    assert states.dtype == np.float64
    np.testing.assert_allclose(states, expected, **CLOSE)
    np.testing.assert_allclose(again, expected, **CLOSE)
    np.testing.assert_allclose(weights, expected_weights, **CLOSE)


@pytest.mark.parametrize("mixing", ["mean", "none"])
@with_and_without_mask
def test_without_attention_a_token_reads_the_mean_or_nothing(mixing: Any, masked: bool) -> None:
    shape = EncoderShape(2, 2, 1, 7, residual_width=3, mixing=mixing)
    model = stirred(Encoder.initialise(shape, np.random.default_rng(3)))
    x = np.random.default_rng(4).normal(size=(BATCH, LENGTH, 3))
    mask = token_mask() if masked else np.ones((BATCH, LENGTH), bool)
    (layer,), expected = model.layers, np.zeros_like(x)
    for number, reader in np.ndindex(BATCH, LENGTH):
        token = x[number, reader]
        if mixing == "mean":
            seen = [normed(layer.before_attention, other) for other in x[number][mask[number]]]
            read = np.mean([linear(layer.attention.value, other) for other in seen], axis=0)
            token = token + linear(layer.attention.output, read)
        hidden = gelu(linear(layer.hidden, normed(layer.before_network, token)))
        expected[number, reader] = normed(model.last, token + linear(layer.back, hidden))
    program = jax.jit(lambda model, x, mask: model(x, mask=mask, read=3), compiler_options=QUICKLY)
    with jax.enable_x64(True):
        found = np.asarray(program(model, x, token_mask() if masked else None))
    np.testing.assert_allclose(found, expected[:, :3], **CLOSE)
    assert entries(model) == shape.parameters()
    with pytest.raises(InvalidInput, match=f"mixing: expected attention, .* got '{mixing}'"):
        model.with_attention(x)


@with_and_without_mask
def test_in_float32_the_librarys_attention_is_that_of_the_plain_formula(masked: bool) -> None:
    # In float64 the encoder computes attention plainly, in float32 and below the library does.
    name, mask = "two heads, two layers", token_mask() if masked else None
    single: Encoder = jax.tree.map(lambda leaf: leaf.astype(np.float32), encoder(name))
    states, (again, weights) = jax.jit(_read)(single, tokens(name).astype(np.float32), mask)
    expected, expected_weights = reference(single, tokens(name).astype(np.float32), mask)
    assert states.dtype == weights.dtype == np.float32
    for found, wanted in ((states, expected), (again, expected), (weights, expected_weights)):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_gradients_are_slopes_of_the_plain_formula() -> None:
    name, mask = "two heads, two layers", token_mask()
    outputs = np.random.default_rng(6).normal(size=(BATCH, LENGTH, SHAPES[name].width))

    def scalar(model: Encoder) -> float:
        return float((reference(model, tokens(name), mask)[0] * outputs).sum())

    slopes = in_double(
        jax.grad(lambda model: (model(tokens(name), mask=mask) * outputs).sum()), encoder(name)
    )
    assert_gradients_are_slopes(slopes, encoder(name), scalar)


@pytest.mark.parametrize("read", [1, 3])
def test_reading_fewer_tokens_changes_none_of_them(read: int) -> None:
    name = "two heads, two layers"
    states = in_double(lambda model, x: model(x, mask=token_mask(), read=read), encoder(name), tokens(name))
    expected, _ = reference(encoder(name), tokens(name), token_mask())
    np.testing.assert_allclose(states, expected[:, :read], **CLOSE)


@jax.jit
def _states(model: Encoder, x: Array, mask: Array) -> Array:
    return model(x, mask=mask)


@settings(max_examples=12)
@given(there=st.sets(st.integers(0, LENGTH - 1), min_size=1), seed=st.integers(0, 2**32 - 1))
def test_a_masked_sequence_is_the_shorter_one(there: set[int], seed: int) -> None:
    name, kept = "two heads, two layers", sorted(there)
    x = np.random.default_rng(seed).normal(scale=3, size=(1, LENGTH, SHAPES[name].width))
    with jax.enable_x64(True):
        masked = _states(encoder(name), x, np.isin(np.arange(LENGTH), kept)[None])
    expected, _ = reference(encoder(name), x[:, kept])
    np.testing.assert_allclose(np.asarray(masked)[:, kept], expected, **CLOSE)


def test_dropout_keeps_the_mean_and_drops_the_share_it_says() -> None:
    dropped = np.asarray(dropout(jnp.ones(40_000), 0.3, jax.random.key(0)))
    assert set(np.unique(dropped)) == {np.float32(0), np.float32(1 / (1 - 0.3))}
    assert abs((dropped == 0).mean() - 0.3) < 0.01
    assert abs(dropped.mean() - 1) < 0.015


def test_without_a_key_or_a_rate_nothing_is_dropped() -> None:
    x = jnp.arange(100.0)
    assert dropout(x, 0.5, None) is x
    assert dropout(x, 0.0, jax.random.key(0)) is x
    assert split_key(None, 3) == (None, None, None)
    keys = jax.random.key_data(jnp.stack([key for key in split_key(jax.random.key(0), 3) if key is not None]))
    assert len(np.unique(keys, axis=0)) == 3


@pytest.mark.parametrize("silent", ["attention", "network"])
def test_dropout_is_on_what_attention_and_network_add(silent: str) -> None:
    shape = EncoderShape(heads=2, head_dim=8, layers=1, feedforward=8, dropout=0.5)
    layer = EncoderLayer.initialise(shape, np.random.default_rng(0))

    def last_map(layer: EncoderLayer) -> Linear:
        return layer.attention.output if silent == "attention" else layer.back

    layer = eqx.tree_at(last_map, layer, jax.tree.map(np.zeros_like, last_map(layer)))
    x = jnp.asarray(np.random.default_rng(1).normal(size=(4, 6, 16)), jnp.float32)
    program = jax.jit(lambda layer, key: layer(x, None, key) - x, compiler_options=QUICKLY)
    added, dropped = program(layer, None), np.asarray(program(layer, jax.random.key(0)))
    kept = np.abs(dropped) > 1e-7
    assert 0.3 < kept.mean() < 0.7
    np.testing.assert_allclose(dropped, np.where(kept, 2 * added, 0), rtol=1e-4, atol=1e-6)


def products(lowered: str) -> list[str]:
    """What every matrix product of a program multiplies: what it says it does, or the type of both sides."""
    lines = [line for line in lowered.splitlines() if "stablehlo.dot_general" in line]
    asked = [re.search(r"lhs_precision_type = (\w+), rhs_precision_type = \1, accum", line) for line in lines]
    given = [re.search(r": \(tensor<\S+x(\w+)>, tensor<\S+x\1>\) ->", line) for line in lines]
    return [found[1] if found else "mixed" for found in (a or b for a, b in zip(asked, given, strict=True))]


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        *((field, 0, "an integer >= 1") for field in ("heads", "head_dim", "layers", "feedforward")),
        ("heads", True, "an integer >= 1"),
        ("dropout", 1.0, "a finite number >= 0 and <= 0.9"),
        ("dropout", float("nan"), "a finite number >= 0 and <= 0.9"),
        ("precision", ["float32"], "one of float32, bfloat16"),
        ("residual_width", 0, "an integer >= 1"),
        ("mixing", "max", "one of attention, mean, none"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_in_one_line(field: str, value: Any, wanted: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(SHAPES["two heads, two layers"], **{field: value})
    assert str(refusal.value) == f"{field}: expected {wanted}, got {value!r}"


@pytest.mark.parametrize("shape", [(5, 6), (1, 5, 7)])
def test_tokens_of_another_width_are_refused(shape: tuple[int, ...]) -> None:
    model = Encoder.initialise(SHAPES["two heads, two layers"], np.random.default_rng(0))
    for question in (model, model.with_attention):
        with pytest.raises(InvalidInput) as refusal:
            question(jnp.zeros(shape))
        assert str(refusal.value) == f"tokens: expected the shape [batch, token, 6], got {shape}"
