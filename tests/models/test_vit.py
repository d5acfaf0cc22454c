"""The vision transformer beside a plain NumPy one, and what must hold for every image."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array
from model_references import FloatArray
from test_encoder import (
    CLOSE,
    assert_gradients_are_slopes,
    in_double,
    linear,
    reference,
    stirred,
)

from headcount.data.cifar10.frames import PATCHES, SIDES
from headcount.errors import InvalidInput
from headcount.models.encoder import EncoderShape
from headcount.models.vit import Vit, VitShape

ENCODER = EncoderShape(heads=2, head_dim=3, layers=2, feedforward=5)
SHAPES = {
    "large patches": VitShape(32, 8, 10, ENCODER),
    "small patches": VitShape(32, 4, 3, EncoderShape(heads=1, head_dim=4, layers=1, feedforward=3)),
    "an uneven side": VitShape(48, 8, 2, EncoderShape(heads=3, head_dim=1, layers=1, feedforward=3)),
}
every_shape = pytest.mark.parametrize("name", SHAPES)


@lru_cache
def vit(name: str) -> Vit:
    return stirred(Vit.initialise(SHAPES[name], 3))


def patches(name: str, batch: int = 2) -> FloatArray:
    shape = SHAPES[name]
    return np.random.default_rng(1).normal(scale=0.2, size=(batch, shape.length - 1, shape.patch**2 * 3))


def vit_reference(vit: Vit, patches: FloatArray) -> FloatArray:
    """The class token and the embedded patches, all with their positions, encoded; then the head."""
    tokens = [
        [np.asarray(vit.class_token), *(linear(vit.embedding, patch) for patch in image)] for image in patches
    ]
    states, _ = reference(vit.encoder, np.array(tokens) + np.asarray(vit.positions))
    return np.array([linear(vit.head, image[0]) for image in states])


def _classes(model: Vit, x: Array) -> Array:
    return model(x)


@every_shape
def test_class_scores_are_those_of_the_plain_formula(name: str) -> None:
    found = in_double(_classes, vit(name), patches(name))
    assert found.shape == (2, SHAPES[name].classes)
    np.testing.assert_allclose(found, vit_reference(vit(name), patches(name)), **CLOSE)


def test_gradients_are_slopes_of_the_plain_formula() -> None:
    shape = VitShape(32, 8, 3, EncoderShape(heads=2, head_dim=2, layers=1, feedforward=3))
    model, x = stirred(Vit.initialise(shape, 0)), patches("large patches", batch=1)
    outputs = np.array([1.0, -2.0, 0.5])
    slopes = in_double(jax.grad(lambda model: (model(x) * outputs).sum()), model)
    assert_gradients_are_slopes(slopes, model, lambda model: float((vit_reference(model, x) * outputs).sum()))


_compiled = jax.jit(_classes)


@settings(max_examples=12)
@given(order=st.permutations(range(16)))
def test_without_positions_the_order_of_patches_does_not_matter(order: list[int]) -> None:
    name = "large patches"
    blind = eqx.tree_at(lambda model: model.positions, vit(name), np.zeros_like(vit(name).positions))
    with jax.enable_x64(True):
        found = _compiled(blind, patches(name)[:, order])
        np.testing.assert_allclose(found, _compiled(blind, patches(name)), **CLOSE)
        moved = _compiled(vit(name), patches(name)[:, ::-1]) - _compiled(vit(name), patches(name))
    assert np.abs(moved).max() > 1e-3, "with positions it does"


def test_dropout_is_on_what_the_encoder_is_given() -> None:
    shape = replace(SHAPES["large patches"], encoder=replace(ENCODER, dropout=0.5))
    model, x = Vit.initialise(shape, seed=0), jnp.asarray(patches("large patches", batch=4), jnp.float32)
    whole, dropped = model.embed(x), np.asarray(model.embed(x, key=jax.random.key(0)))
    assert 0.3 < (dropped == 0).mean() < 0.7
    np.testing.assert_allclose(dropped, np.where(dropped == 0, 0, 2 * whole), rtol=1e-6)


def test_a_shape_says_the_size_of_its_encoder() -> None:
    shape = SHAPES["large patches"]
    said = (shape.heads, shape.head_dim, shape.layers, shape.width, shape.encoder_hidden, shape.precision)
    assert said == (2, 3, 2, 6, (5,), "float32")
    assert shape.counted_parameters() == shape.parameters()


@pytest.mark.parametrize("patch", PATCHES)
@pytest.mark.parametrize("side", SIDES)
def test_patches_cover_the_image(side: int, patch: int) -> None:
    shape = VitShape(side, patch, 10, ENCODER)
    assert (shape.length - 1) * shape.token_dim == side * side * 3
    model = Vit.initialise(shape, seed=0)
    x = jax.ShapeDtypeStruct((1, shape.patches, shape.token_dim), np.float32)
    assert jax.eval_shape(model, x).shape == (1, 10)


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        ("side", 33, "one of 32, 48, 64, 96, 128"),
        ("patch", 8.0, "one of 4, 8"),
        ("classes", 1, "an integer >= 2"),
        ("encoder", None, "an EncoderShape"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_in_one_line(field: str, value: Any, wanted: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(SHAPES["large patches"], **{field: value})
    assert str(refusal.value) == f"{field}: expected {wanted}, got {value!r}"


@pytest.mark.parametrize("shape", [(2, 17, 192), (16, 192)])
def test_patches_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Vit.initialise(SHAPES["large patches"], seed=0)(jnp.zeros(shape))
    assert str(refusal.value) == f"patches: expected the shape [batch, 16, 192], got {shape}"
