"""What must hold for every sequence, whatever the parameters."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from jaxtyping import Array
from model_evaluation import QUICKLY, inputs
from model_references import ARCHITECTURES, LENGTH, FloatArray, double, may_look, reference

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.positions import encoder_inputs
from headcount.models.transformer import TokenLayer, Transformer

CLOSE = {"rtol": 1e-10, "atol": 1e-11}
quickly = settings(max_examples=12)
sequences = arrays(np.float64, (LENGTH, 3), elements=st.floats(-2, 2, allow_subnormal=False))
seeds = st.integers(0, 2**32 - 1)
positionless = pytest.mark.parametrize("name", ["the paper's", "grouped", "two layers with everything"])


def _read(model: Transformer, x: Array) -> tuple[Array, Array]:
    return model(x), model.attention_weights(x)


def _after(layer: TokenLayer, tokens: Array) -> Array:
    return layer(tokens, tokens[:, 0], None, None, None)[0]


compiled = jax.jit(_read, compiler_options=QUICKLY)
compiled_layer = jax.jit(_after, compiler_options=QUICKLY)


def read(model: Transformer, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The output and the attention weights, in float64."""
    with jax.enable_x64(True):
        output, weights = compiled(model, x)
        return np.asarray(output), np.asarray(weights)


@positionless
@quickly
@given(x=sequences, order=st.permutations(range(LENGTH)))
def test_without_positions_order_does_not_matter(name: str, x: FloatArray, order: list[int]) -> None:
    output, weights = read(inputs(name).model, x)
    permuted_output, permuted_weights = read(inputs(name).model, x[order])
    np.testing.assert_allclose(permuted_output, output, **CLOSE)
    np.testing.assert_allclose(permuted_weights, weights[:, order], **CLOSE)


@pytest.mark.parametrize("name", ["one-hot positions", "sinusoidal positions"])
def test_with_positions_order_does_matter(name: str) -> None:
    model, x = inputs(name).model, inputs(name).x
    assert np.abs(read(model, x)[0] - read(model, x[::-1])[0]).max() > 1e-4


@pytest.mark.parametrize("name", ["one-hot positions", "sinusoidal positions"])
def test_a_model_that_starts_blind_to_positions_can_learn_to_see_them(name: str) -> None:
    shape = replace(ARCHITECTURES[name], positions_start="zero")
    model, x = double(Transformer.initialise(shape, seed=3)), inputs(name).x
    np.testing.assert_allclose(read(model, x)[0], read(model, x[::-1])[0], **CLOSE)
    with jax.enable_x64(True):
        gradient = jax.grad(lambda model: model(x).sum())(model).encoder.weights[0]
    assert np.abs(gradient[:, shape.token_dim :][:, :LENGTH]).max(axis=0).min() > 0


@positionless
@quickly
@given(x=sequences)
def test_every_token_twice_is_every_token_once(name: str, x: FloatArray) -> None:
    output, weights = read(inputs(name).model, x)
    doubled_output, doubled_weights = read(inputs(name).model, np.concatenate([x, x]))
    np.testing.assert_allclose(doubled_output, output, **CLOSE)
    np.testing.assert_allclose(doubled_weights, np.tile(weights / 2, 2), **CLOSE)


def shifted(model: Transformer, shift: FloatArray | float) -> Transformer:
    """The model with something added to the last bias of its encoder."""
    moved: Transformer = eqx.tree_at(
        lambda tree: tree.encoder.biases[-1], model, model.encoder.biases[-1] + shift
    )
    return moved


@pytest.mark.parametrize("name", ["the paper's", "no hidden layers at all"])
@quickly
@given(x=sequences, shift=arrays(np.float64, 8, elements=st.floats(-3, 3)))
def test_the_last_encoder_bias_moves_no_attention(name: str, x: FloatArray, shift: FloatArray) -> None:
    # Folded, the bias is left out; the plain formula adds it to every logit.
    model = inputs(name).model
    moved = reference(shifted(model, shift), x).weights
    np.testing.assert_allclose(read(shifted(model, shift), x)[1], moved, **CLOSE)
    np.testing.assert_allclose(moved, read(model, x)[1], **CLOSE)


@pytest.mark.parametrize("name", ["the paper's", "grouped", "layer norm, one layer"])
@quickly
@given(seed=seeds)
def test_a_large_beta_looks_at_one_token_only(name: str, seed: int) -> None:
    model = inputs(name).model
    x = np.random.default_rng(seed).normal(size=(LENGTH, 3))
    sharp: Transformer = replace(model, architecture=replace(model.architecture, beta=1e12))
    soft = reference(model, x).weights
    np.testing.assert_array_equal(read(sharp, x)[1], soft == soft.max(axis=1, keepdims=True))


@pytest.mark.parametrize("name", ["grouped", "multi-query, vector-valued", "three grouped layers"])
@quickly
@given(x=sequences, seed=seeds)
def test_grouped_heads_are_full_heads_with_equal_keys_and_values(name: str, x: FloatArray, seed: int) -> None:
    shape = ARCHITECTURES[name]
    group_size = shape.heads // shape.key_value_heads
    grouped = double(Transformer.initialise(shape, seed=seed))
    full = Transformer.initialise(replace(shape, kv_heads=None), seed=0)
    repeated = [
        leaf if leaf.shape == whole.shape else np.repeat(leaf, group_size, axis=0)
        for leaf, whole in zip(jax.tree.leaves(grouped), jax.tree.leaves(full), strict=True)
    ]
    expected = read(jax.tree.unflatten(jax.tree.structure(full), repeated), x)
    for found, wanted in zip(read(grouped, x), expected, strict=True):
        np.testing.assert_allclose(found, wanted, **CLOSE)


AT_THE_LAST_TOKEN = [
    "two causal layers with everything, read at the last token",
    "three causal layers in a window, read at the last token",
    "grouped, a stream of its own",
]


@pytest.mark.parametrize("name", AT_THE_LAST_TOKEN)
@quickly
@given(x=sequences, others=sequences, last=st.integers(0, LENGTH - 1))
def test_nothing_that_comes_later_moves_a_causal_token(
    name: str, x: FloatArray, others: FloatArray, last: int
) -> None:
    model, there = inputs(name).model, np.arange(LENGTH) <= last
    changed = np.where(there[:, None], x, others)
    with jax.enable_x64(True):
        (tokens, output), (changed_tokens, changed_output) = (
            compiled_tokens(model, each, there) for each in (x, changed)
        )
    np.testing.assert_array_equal(changed_tokens[:, there], tokens[:, there])
    np.testing.assert_array_equal(changed_output, output)
    # A mask at the end is a shorter sequence.
    np.testing.assert_allclose(output, read(model, x[: last + 1])[0], **CLOSE)


def _tokens_and_output(model: Transformer, x: Array, mask: Array) -> tuple[Array, Array]:
    """Tokens before the last attention, of all that are in x, and the output where the mask hides some."""
    tokens = model.encoder(encoder_inputs(x, model.architecture))
    for layer in model.token_layers:
        tokens, _ = layer(tokens, model.class_token, None, None, None)
    return tokens, model(x, mask=mask)


compiled_tokens = jax.jit(_tokens_and_output, compiler_options=QUICKLY)


@pytest.mark.parametrize("name", ["a window and a global token, read in both", "strides, read once"])
@quickly
@given(moved=st.integers(0, LENGTH - 1), seed=seeds)
def test_a_token_moves_those_that_look_at_it_and_no_others(name: str, moved: int, seed: int) -> None:
    model, random = inputs(name).model, np.random.default_rng(seed)
    shape, layer = model.architecture, model.token_layers[0]
    tokens = random.normal(size=(shape.width, LENGTH))
    changed = np.where(np.arange(LENGTH) == moved, random.normal(size=(shape.width, 1)), tokens)
    with jax.enable_x64(True):
        before, after = (np.asarray(compiled_layer(layer, each)) for each in (tokens, changed))
    looks = np.array([may_look(t, moved, shape) for t in range(LENGTH)])
    np.testing.assert_array_equal(before[:, ~looks], after[:, ~looks])
    assert np.abs(before - after)[:, looks].max(axis=0).min() > 1e-9


@pytest.mark.parametrize("name", ["the paper's", "one sparse layer, read at the last token"])
def test_scores_are_the_logits_of_what_the_reader_sees(name: str) -> None:
    model, x = inputs(name).model, inputs(name).x
    with jax.enable_x64(True):
        scores, _ = jax.jit(Transformer.scores_and_values, compiler_options=QUICKLY)(model, x)
        weights = np.asarray(jax.nn.softmax(scores, axis=1))
    np.testing.assert_allclose(weights, read(model, x)[1], **CLOSE)
    seen = [may_look(LENGTH - 1, s, model.architecture) for s in range(LENGTH)]
    assert np.isfinite(np.asarray(scores)).tolist() == [seen] * model.architecture.heads


@given(length=st.integers(1, 6), more=st.integers(1, 9))
@quickly
def test_one_hot_positions_end_somewhere(length: int, more: int) -> None:
    shape = Architecture(token_dim=1, heads=1, head_dim=1, positions="one_hot", length=length)
    model = Transformer.initialise(shape, seed=0)
    assert jax.eval_shape(model, np.zeros((length, 1), np.float32)).shape == (1,)
    with pytest.raises(InvalidInput, match=rf"length: expected at most {length}, .* got {length + more}"):
        model(np.zeros((length + more, 1), np.float32))


@quickly
@given(seed=seeds)
def test_a_start_follows_from_its_seed_alone(seed: int) -> None:
    shape = ARCHITECTURES["two layers with everything"]
    one, again, other = (
        jax.tree.leaves(Transformer.initialise(shape, seed=number)) for number in (seed, seed, seed + 1)
    )
    for first, second, third in zip(one, again, other, strict=True):
        np.testing.assert_array_equal(first, second)
        assert np.any(first != third)
        assert first.dtype == np.float32


def test_weights_and_biases_start_uniform_within_one_over_the_root_of_the_inputs() -> None:
    model = Transformer.initialise(Architecture(token_dim=4, heads=4, head_dim=16), seed=0)
    inputs_of = [(model.encoder, (4, 32)), (model.readout, (64, 32))]
    for network, sizes in inputs_of:
        for weight, bias, size in zip(network.weights, network.biases, sizes, strict=True):
            assert np.abs(weight).max() <= size**-0.5
            assert np.abs(bias).max() <= size**-0.5
    for factor in jax.tree.leaves(model.attention):
        assert np.abs(factor).max() <= 64**-0.5
        assert factor.std() == pytest.approx(64**-0.5 / 3**0.5, rel=0.05)
