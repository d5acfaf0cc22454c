"""Batches of one-layer members: the same outputs and the same gradient as one sequence at a time."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_references import ARCHITECTURES, small, unfolded

from headcount.engine.member import Slicing, prepared
from headcount.models.batches import Batched, averages_features
from headcount.models.padding import pad
from headcount.models.transformer import Padding, Transformer

SHAPES = {
    "grouped heads": small(heads=4, kv_heads=2, head_dim=3, output_dim=2),
    "many heads": small(heads=9, head_dim=1, token_dim=1),
    "one-hot places": small(heads=1, positions="one_hot", length=9),
    "waves": small(heads=3, positions="sinusoidal"),
    "waves and places": small(heads=2, positions="both", length=9),
}


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", SHAPES)
def test_outputs_and_gradient_are_those_of_one_sequence_at_a_time(name, masked):
    """In double precision, against the formula that folds nothing."""
    shape, seed = SHAPES[name], len(name)
    random = np.random.default_rng(seed)
    with jax.enable_x64(True):
        model = jax.tree.map(
            lambda leaf: jnp.asarray(leaf, jnp.float64), Transformer.initialise(shape, seed=seed)
        )
        x = jnp.asarray(random.normal(size=(5, 7, shape.token_dim)))
        mask = np.ones((5, 7), bool) if not masked else random.random((5, 7)) < 0.6
        mask[:, 0] = True
        weights = jnp.asarray(random.normal(size=(5, shape.output_dim)))

        def batched(model: Transformer) -> jax.Array:
            return jnp.sum(Batched.of(model, 7)(x, jnp.asarray(mask) if masked else None) * weights)

        def plain(model: Transformer) -> jax.Array:
            return jnp.sum(jax.vmap(lambda x, seen: unfolded(model, x, seen))(x, jnp.asarray(mask)) * weights)

        (one, slope), (other, expected) = (jax.jit(jax.value_and_grad(f))(model) for f in (batched, plain))
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
        for found, wanted in zip(jax.tree.leaves(slope), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-11)


def test_a_padded_model_is_the_same_function_in_batches():
    shape = small(heads=2, positions="one_hot", length=7, positions_start="zero")
    hull = replace(shape, heads=4, head_dim=6)
    model = Transformer.initialise(shape, seed=3)
    x = np.random.default_rng(0).normal(size=(4, 7, 3)).astype(np.float32)
    own = Batched.of(model, 7)(jnp.asarray(x))
    padded = Batched.of(pad(model, hull), 7, Padding.of(shape))(jnp.asarray(x))
    np.testing.assert_allclose(own, padded, rtol=1e-5, atol=1e-6)


def test_a_member_that_sees_no_positions_is_blind_in_batches():
    shape = small(positions="one_hot", length=7)
    model = Transformer.initialise(shape, seed=3)
    blind = replace(Padding.of(shape), sees_positions=np.float32(0))
    x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    read = Batched.of(model, 7, blind)
    np.testing.assert_allclose(read(jnp.asarray(x)), read(jnp.asarray(x[:, ::-1])), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_only_plain_members_of_one_relu_layer_are_read_in_batches(name):
    shape = ARCHITECTURES[name]
    ready = prepared(Transformer.initialise(shape, seed=0), 5, Padding.of(shape), Slicing(2, in_batches=True))
    assert isinstance(ready, Batched) == averages_features(shape)
    if shape.layers > 1 or shape.layer_norm or shape.reader == "last token" or len(shape.encoder_hidden) != 1:
        assert not averages_features(shape)
