"""The vision transformer beside a plain NumPy one, and what must hold for every image."""

from collections.abc import Callable
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
from jax.lax import Precision
from jaxtyping import Array
from model_evaluation import QUICKLY
from model_references import FloatArray
from test_encoder import (
    CLOSE,
    assert_gradients_are_slopes,
    entries,
    in_double,
    linear,
    products,
    reference,
    stacked,
    stirred,
)
from test_model_precision import both, precisions

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


def test_one_at_a_time_is_the_same_as_all_members_at_once() -> None:
    name = "large patches"
    members = [stirred(Vit.initialise(SHAPES[name], seed)) for seed in range(3)]
    together = in_double(jax.vmap(_classes, (0, None)), stacked(members), patches(name))
    for member, found in zip(members, together, strict=True):
        np.testing.assert_allclose(found, vit_reference(member, patches(name)), **CLOSE)


_compiled = jax.jit(_classes)


@settings(max_examples=12, deadline=None)
@given(order=st.permutations(range(16)))
def test_without_positions_the_order_of_patches_does_not_matter(order: list[int]) -> None:
    name = "large patches"
    blind = eqx.tree_at(lambda model: model.positions, vit(name), np.zeros_like(vit(name).positions))
    with jax.enable_x64(True):
        found = _compiled(blind, patches(name)[:, order])
        np.testing.assert_allclose(found, _compiled(blind, patches(name)), **CLOSE)


def test_with_positions_the_order_of_patches_matters() -> None:
    name = "large patches"
    with jax.enable_x64(True):
        moved = _compiled(vit(name), patches(name)[:, ::-1]) - _compiled(vit(name), patches(name))
    assert np.abs(moved).max() > 1e-3


def test_keys_decide_what_is_dropped_and_none_drops_nothing() -> None:
    def classes(rate: float, seed: int | None) -> FloatArray:
        model = Vit.initialise(
            replace(SHAPES["large patches"], encoder=replace(ENCODER, dropout=rate)), seed=3
        )
        key = None if seed is None else jax.random.key(seed)
        return np.asarray(program(model, patches("large patches").astype(np.float32), key))

    program = jax.jit(lambda model, x, key: model(x, key=key), compiler_options=QUICKLY)
    np.testing.assert_array_equal(classes(0.3, 1), classes(0.3, 1))
    np.testing.assert_allclose(classes(0.3, None), classes(0.0, 1), rtol=1e-6)
    assert np.abs(classes(0.3, 1) - classes(0.3, 2)).max() > 0.01
    assert np.abs(classes(0.3, 1) - classes(0.3, None)).max() > 0.01


def test_dropout_is_on_what_the_encoder_is_given() -> None:
    shape = replace(SHAPES["large patches"], encoder=replace(ENCODER, dropout=0.5))
    model, x = Vit.initialise(shape, seed=0), jnp.asarray(patches("large patches", batch=4), jnp.float32)
    whole, dropped = model.embed(x), np.asarray(model.embed(x, key=jax.random.key(0)))
    assert 0.3 < (dropped == 0).mean() < 0.7
    np.testing.assert_allclose(dropped, np.where(dropped == 0, 0, 2 * whole), rtol=1e-6)


def test_every_product_is_in_full_float32_unless_asked_otherwise() -> None:
    gradient: Callable[[Vit, Array], Vit] = jax.grad(lambda model, x: (model(x) ** 2).sum())
    x = jnp.zeros((2, 16, 192))
    found = precisions(gradient, Vit.initialise(SHAPES["large patches"], seed=0), x)
    assert len(found) > 2 * 3 * 7
    assert set(found) == {both(Precision.HIGHEST)}
    shape = replace(SHAPES["large patches"], encoder=replace(ENCODER, precision="bfloat16"))
    rounded = products(jax.jit(gradient).lower(Vit.initialise(shape, seed=0), x).as_text())
    # The head, forth and twice back, is all that stays in float32.
    assert sorted(set(rounded)) == ["bf16", "f32"]
    assert rounded.count("f32") == 3


def test_bfloat16_is_float32_to_a_few_percent() -> None:
    encoder = EncoderShape(heads=2, head_dim=16, layers=2, feedforward=64)
    shape = VitShape(32, 8, 10, encoder)
    x = jnp.asarray(np.random.default_rng(1).normal(size=(3, 16, 192)), jnp.float32)

    def summed(model: Vit) -> tuple[Array, Array]:
        classes = model(x)
        return jnp.sum(classes * jnp.cos(jnp.arange(10))), classes

    program = jax.jit(jax.value_and_grad(summed, has_aux=True), compiler_options=QUICKLY)
    (_, expected), _ = program(Vit.initialise(shape, seed=0))
    rounded = replace(shape, encoder=replace(encoder, precision="bfloat16"))
    (_, found), slopes = program(Vit.initialise(rounded, seed=0))
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 0.05 * np.abs(expected).max()
    for slope in jax.tree.leaves(slopes):
        assert slope.dtype == np.float32
        assert np.isfinite(slope).all()


@every_shape
def test_every_number_is_counted(name: str) -> None:
    start = Vit.initialise(SHAPES[name], seed=0)
    assert SHAPES[name].parameters() == entries(start)
    assert {(type(leaf), leaf.dtype) for leaf in jax.tree.leaves(start)} == {
        (np.ndarray, np.dtype("float32"))
    }


def test_the_seed_decides_the_start() -> None:
    first, again, other = (Vit.initialise(SHAPES["large patches"], seed=seed) for seed in (1, 1, 2))
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(again)))
    assert not np.array_equal(first.positions, other.positions)


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


# (field, value, what is allowed)
REFUSED: list[tuple[str, Any, str]] = [
    ("side", 33, "allowed are 32, 48, 64, 96, 128"),
    ("side", 32.0, "allowed are 32, 48, 64, 96, 128"),
    ("patch", 16, "allowed are 4, 8"),
    ("patch", True, "allowed are 4, 8"),
    ("classes", 1, "allowed is a whole number from 2 up"),
    ("classes", "10", "allowed is a whole number from 2 up"),
    ("encoder", None, "allowed is an EncoderShape"),
]


@pytest.mark.parametrize(("field", "value", "allowed"), REFUSED)
def test_a_shape_that_cannot_be_is_refused_in_one_line(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(SHAPES["large patches"], **{field: value})
    assert str(refusal.value) == f"{field} = {value!r}: {allowed}"


@pytest.mark.parametrize("shape", [(2, 17, 192), (2, 16, 48), (16, 192)])
def test_patches_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Vit.initialise(SHAPES["large patches"], seed=0)(jnp.zeros(shape))
    assert str(refusal.value) == f"patches of shape {shape}: allowed is [batch, 16, 192]"
