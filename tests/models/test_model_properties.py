"""What must hold for every sequence, whatever the parameters."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from model_evaluation import QUICKLY, inputs
from model_references import ARCHITECTURES, LENGTH, FloatArray, double, reference, small

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer

CLOSE = {"rtol": 1e-10, "atol": 1e-11}
quickly = settings(max_examples=12, deadline=None)
sequences = arrays(np.float64, (LENGTH, 3), elements=st.floats(-2, 2, allow_subnormal=False))


_read = jax.jit(lambda model, x: (model(x), model.attention_weights(x)), compiler_options=QUICKLY)


def read(model: Transformer, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The output and the attention weights, in float64."""
    with jax.enable_x64(True):
        output, weights = _read(model, x)
        return np.asarray(output), np.asarray(weights)


@pytest.mark.parametrize("name", ["the paper's", "grouped", "two layers with everything"])
@quickly
@given(x=sequences, order=st.permutations(range(LENGTH)))
def test_without_positions_neither_order_nor_repetition_matters(
    name: str, x: FloatArray, order: list[int]
) -> None:
    output, weights = read(inputs(name).model, x)
    permuted_output, permuted_weights = read(inputs(name).model, x[order])
    np.testing.assert_allclose(permuted_output, output, **CLOSE)
    np.testing.assert_allclose(permuted_weights, weights[:, order], **CLOSE)
    doubled_output, doubled_weights = read(inputs(name).model, np.concatenate([x, x]))
    np.testing.assert_allclose(doubled_output, output, **CLOSE)
    np.testing.assert_allclose(doubled_weights, np.tile(weights / 2, 2), **CLOSE)


@pytest.mark.parametrize("name", ["one-hot positions", "sinusoidal positions"])
def test_order_matters_to_a_model_that_sees_positions_or_can_learn_to(name: str) -> None:
    model, x = inputs(name).model, inputs(name).x
    assert np.abs(read(model, x)[0] - read(model, x[::-1])[0]).max() > 1e-4
    shape = replace(ARCHITECTURES[name], positions_start="zero")
    blind = double(Transformer.initialise(shape, seed=3))
    np.testing.assert_allclose(read(blind, x)[0], read(blind, x[::-1])[0], **CLOSE)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda model: model(x).sum()), compiler_options=QUICKLY)(blind)
    of_positions = gradient.encoder.weights[0][:, shape.token_dim :][:, :LENGTH]
    assert np.abs(of_positions).max(axis=0).min() > 0


@pytest.mark.parametrize("name", ["the paper's", "grouped", "layer norm, one layer"])
@quickly
@given(seed=st.integers(0, 2**32 - 1))
def test_a_large_beta_looks_at_one_token_only(name: str, seed: int) -> None:
    model = inputs(name).model
    x = np.random.default_rng(seed).normal(size=(LENGTH, 3))
    sharp: Transformer = replace(model, architecture=replace(model.architecture, beta=1e12))
    soft = reference(model, x).weights
    np.testing.assert_array_equal(read(sharp, x)[1], soft == soft.max(axis=1, keepdims=True))


@pytest.mark.parametrize("positions", ["one_hot", "both"])
@pytest.mark.parametrize("hidden", [(), (4,)])
def test_one_hot_positions_end_somewhere(positions: str, hidden: tuple[int, ...]) -> None:
    model = Transformer.initialise(small(positions=positions, length=4, encoder_hidden=hidden), seed=0)
    assert jax.eval_shape(model, np.zeros((4, 3), np.float32)).shape == (1,)
    with pytest.raises(InvalidInput, match=r"length: expected at most 4, .* got 5"):
        model(np.zeros((5, 3), np.float32))


def test_a_start_follows_from_its_seed_alone() -> None:
    shape = ARCHITECTURES["two layers with everything"]
    starts = (jax.tree.leaves(Transformer.initialise(shape, seed=seed)) for seed in (1, 1, 2))
    for first, second, third in zip(*starts, strict=True):
        np.testing.assert_array_equal(first, second)
        assert np.any(first != third)
        assert first.dtype == np.float32


def test_weights_and_biases_start_uniform_within_one_over_the_root_of_the_inputs() -> None:
    model = Transformer.initialise(Architecture(token_dim=4, heads=4, head_dim=16), seed=0)
    for network, sizes in ((model.encoder, (4, 32)), (model.readout, (64, 32))):
        for weight, bias, size in zip(network.weights, network.biases, sizes, strict=True):
            assert np.abs(weight).max() <= size**-0.5
            assert np.abs(bias).max() <= size**-0.5
    for factor in jax.tree.leaves(model.attention):
        assert np.abs(factor).max() <= 64**-0.5
        assert factor.std() == pytest.approx(64**-0.5 / 3**0.5, rel=0.05)
