"""Folded, unfolded and plain NumPy: one function, on every architecture of the table."""

from itertools import product
from typing import get_args

import jax
import numpy as np
import pytest
from model_evaluation import (
    Derived,
    evaluated,
    evaluated_unfolded,
    head_mask,
    inputs,
    token_mask,
)
from model_references import ARCHITECTURES, LENGTH, Reading, reference

from headcount.models.architecture import (
    Activation,
    ClassReads,
    PositionInput,
    Reader,
    ReadoutActivation,
)

VALUE = {"rtol": 1e-11, "atol": 1e-12}

# What a step has for a gradient is no slope.
SMOOTH = [name for name, shape in ARCHITECTURES.items() if shape.readout_activation != "step"]

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
with_and_without_masks = pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])


def plainly(name: str, masked: bool) -> Reading:
    given = inputs(name)
    if not masked:
        return reference(given.model, given.x)
    return reference(given.model, given.x, token_mask(), head_mask(given.model))


def assert_same_gradients(actual: Derived, expected: Derived) -> None:
    leaves = zip(jax.tree.leaves_with_path(actual[1]), jax.tree.leaves(expected[1]), strict=True)
    for (path, leaf), other in leaves:
        scale = 1e-9 * np.abs(other).max(initial=0.0)
        where = jax.tree_util.keystr(path)
        np.testing.assert_allclose(leaf, other, rtol=1e-9, atol=scale + 1e-14, err_msg=where)


def test_the_table_covers_every_option() -> None:
    table = list(ARCHITECTURES.values())
    assert {a.encoder_activation for a in table} == set(get_args(Activation))
    assert {a.readout_activation for a in table} == set(get_args(ReadoutActivation))
    assert {a.positions for a in table} == set(get_args(PositionInput))
    assert {a.layers for a in table} == {1, 2, 3}
    assert {a.class_reads for a in table if a.layers > 1} == set(get_args(ClassReads))
    assert {len(a.encoder_hidden) for a in table} == {0, 1, 2}
    assert {len(a.readout_hidden) for a in table} == {0, 1, 2, 4}
    for field in ("residual", "layer_norm", "bounded", "scale_logits"):
        assert {getattr(a, field) for a in table} == {True, False}
    for layers in (1, 2):
        assert any(a.kv_heads not in (None, a.heads) for a in table if a.layers == layers)
    assert any(a.feedforward and not a.residual for a in table)
    assert any(a.length and a.length > LENGTH for a in table if a.positions == "one_hot")
    for reader in get_args(Reader):
        read = [a for a in table if a.reader == reader]
        assert {a.layers for a in read} == {1, 2, 3}
        assert {a.causal for a in read} == {a.window is None for a in read} == {True, False}
        assert {a.layer_norm for a in read} == {a.residual_width is None for a in read} == {True, False}
    sparse = [a for a in table if a.layers > 1]
    assert {(a.window is None, a.stride is None) for a in sparse} == set(product((True, False), repeat=2))
    assert {a.global_tokens for a in sparse if a.window} == {0, 1, 2}
    assert {np.sign(a.residual_width - a.heads * a.head_dim) for a in table if a.residual_width} == {-1, 1}
    assert any(a.residual_width and a.group_size > 1 for a in table)


@every_architecture
@with_and_without_masks
def test_outputs_and_representation_are_those_of_the_plain_formula(name: str, masked: bool) -> None:
    found, wanted = evaluated(name, masked), plainly(name, masked)
    output, _ = found.folded
    for same in (output, evaluated_unfolded(name, masked)[0], found.read_out):
        np.testing.assert_allclose(same, wanted.output, **VALUE)
    np.testing.assert_allclose(found.representation, wanted.representation, **VALUE)
    assert output.dtype == np.float64
    assert output.shape == (ARCHITECTURES[name].output_dim,)


@every_architecture
@with_and_without_masks
def test_folding_leaves_every_gradient_as_it_is(name: str, masked: bool) -> None:
    assert_same_gradients(evaluated(name, masked).folded, evaluated_unfolded(name, masked))


@every_architecture
@with_and_without_masks
def test_the_gradient_by_hand_is_the_gradient(name: str, masked: bool) -> None:
    found = evaluated(name, masked)
    np.testing.assert_allclose(found.trained[0], found.folded[0], **VALUE)
    assert_same_gradients(found.trained, found.folded)


@pytest.mark.parametrize("name", SMOOTH)
@with_and_without_masks
def test_gradients_are_slopes_of_the_plain_formula(name: str, masked: bool) -> None:
    given, random = inputs(name), np.random.default_rng(0)
    masks = (token_mask(), head_mask(given.model)) if masked else (None, None)
    here = (given.model, given.x)
    leaves, structure = jax.tree.flatten(here)
    for _ in range(3):
        direction = [random.normal(size=leaf.shape) for leaf in leaves]

        def scalar(step: float, direction: list[np.ndarray] = direction) -> float:
            moved = [leaf + step * along for leaf, along in zip(leaves, direction, strict=True)]
            model, x = jax.tree.unflatten(structure, moved)
            return float(reference(model, x, *masks).output @ given.outputs)

        slope = (scalar(1e-5) - scalar(-1e-5)) / 2e-5
        gradients = jax.tree.leaves(evaluated(name, masked).folded[1])
        expected = sum(np.sum(leaf * along) for leaf, along in zip(gradients, direction, strict=True))
        assert slope == pytest.approx(expected, rel=1e-6, abs=1e-7)


@every_architecture
@with_and_without_masks
def test_attention_weights_are_those_of_the_plain_formula(name: str, masked: bool) -> None:
    given = inputs(name)
    # Weights are asked without silencing heads, and so is the reference.
    mask = token_mask() if masked else None
    weights = evaluated(name, masked).weights
    np.testing.assert_allclose(weights, reference(given.model, given.x, mask).weights, **VALUE)
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)


@every_architecture
def test_a_hidden_token_gets_no_weight_and_no_gradient(name: str) -> None:
    found = evaluated(name, True)
    np.testing.assert_array_equal(found.weights[:, ~token_mask()], 0)
    np.testing.assert_array_equal(found.folded[1][1][~token_mask()], 0)
