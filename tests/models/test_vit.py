"""The vision transformer beside a plain NumPy one, and what must hold for every image."""

from functools import lru_cache

import equinox as eqx
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from model_references import FloatArray
from test_encoder import CLOSE, assert_gradients_are_slopes, in_double, linear, reference, stirred

from headcount.data.cifar10.frames import PATCHES, SIDES
from headcount.models.encoder import EncoderShape
from headcount.models.vit import Vit, VitShape

ENCODER = EncoderShape(heads=2, head_dim=3, layers=2, feedforward=5)
SHAPES = {
    "large patches": VitShape(32, 8, 3, ENCODER),
    "small patches": VitShape(32, 4, 3, EncoderShape(heads=1, head_dim=4, layers=1, feedforward=3)),
    "an uneven side": VitShape(48, 8, 2, EncoderShape(heads=3, head_dim=1, layers=1, feedforward=3)),
}


@lru_cache
def vit(name: str) -> Vit:
    return stirred(Vit.initialise(SHAPES[name], 3))


def patches(name: str) -> FloatArray:
    shape = SHAPES[name]
    return np.random.default_rng(1).normal(scale=0.2, size=(2, shape.patches, shape.token_dim))


def vit_reference(vit: Vit, patches: FloatArray) -> FloatArray:
    """The class token and the embedded patches, all with their positions, encoded; then the head."""
    tokens = [
        [np.asarray(vit.class_token), *(linear(vit.embedding, patch) for patch in image)] for image in patches
    ]
    states, _ = reference(vit.encoder, np.array(tokens) + np.asarray(vit.positions))
    return np.array([linear(vit.head, image[0]) for image in states])


@pytest.mark.parametrize("name", SHAPES)
def test_class_scores_are_those_of_the_plain_formula(name: str) -> None:
    found = in_double(lambda model, x: model(x), vit(name), patches(name))
    assert found.shape == (2, SHAPES[name].classes)
    np.testing.assert_allclose(found, vit_reference(vit(name), patches(name)), **CLOSE)


def test_gradients_are_slopes_of_the_plain_formula() -> None:
    x, outputs = patches("large patches")[:1], np.array([1.0, -2.0, 0.5])
    shape = VitShape(32, 8, 3, EncoderShape(heads=2, head_dim=2, layers=1, feedforward=3))
    model = stirred(Vit.initialise(shape, 0))
    slopes = in_double(jax.grad(lambda model: (model(x) * outputs).sum()), model)
    assert_gradients_are_slopes(slopes, model, lambda model: float((vit_reference(model, x) * outputs).sum()))


_scores = jax.jit(lambda model, x: model(x))


@settings(max_examples=12, deadline=None)
@given(order=st.permutations(range(16)))
def test_without_positions_the_order_of_patches_does_not_matter(order: list[int]) -> None:
    model, x = vit("large patches"), patches("large patches")
    blind = eqx.tree_at(lambda model: model.positions, model, np.zeros_like(model.positions))
    with jax.enable_x64(True):
        np.testing.assert_allclose(_scores(blind, x[:, order]), _scores(blind, x), **CLOSE)
        moved = _scores(model, x[:, ::-1]) - _scores(model, x)
    assert np.abs(moved).max() > 1e-3, "with positions it does"


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
