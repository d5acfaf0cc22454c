"""Models in the arrays of a larger architecture: the same function, and the same training."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jaxtyping import Array
from model_evaluation import QUICKLY, Derived, derived, evaluate, evaluated, inputs
from model_references import ARCHITECTURES, FloatArray, reference

from headcount.models.architecture import Architecture
from headcount.models.padding import pad, unpad
from headcount.models.pooling import pool_for_training
from headcount.models.transformer import Padding, Transformer

STEPS = 4
RATE = 0.02
MAX_PARAMETERS = 8192
# (largest norm of a gradient, weight decay): Adam is AdamW without decay, and no gradient here is that long.
OPTIMIZERS = {"adam with clipping": (0.05, 0.0), "adamw": (1e6, 0.3)}

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
every_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS)


def larger(architecture: Architecture) -> Architecture:
    """More of everything that may be padded; query heads still share key-value heads as before."""
    group_size = architecture.heads // architecture.key_value_heads
    groups = architecture.key_value_heads + 1
    return replace(
        architecture,
        heads=groups * group_size,
        kv_heads=None if architecture.kv_heads is None else groups,
        head_dim=architecture.head_dim + 2,
        residual_width=architecture.residual_width and architecture.residual_width + 3,
        encoder_hidden=tuple(size + 3 for size in architecture.encoder_hidden),
        readout_hidden=tuple(size + 1 for size in architecture.readout_hidden),
        feedforward=architecture.feedforward and architecture.feedforward + 2,
        length=architecture.length and architecture.length + 2,
    )


def exact_padding(architecture: Architecture) -> Padding:
    """`Padding.of` without rounding to float32, which alone would move a float64 output by 1e-8."""
    return replace(Padding.of(architecture), logit_scale=np.asarray(architecture.logit_scale, np.float64))


def padded_entries(architecture: Architecture) -> list[np.ndarray]:
    """True wherever an array of the larger architecture has no counterpart in the smaller."""
    ones: Transformer = jax.tree.map(np.ones_like, Transformer.initialise(architecture, seed=0))
    return [leaf == 0 for leaf in jax.tree.leaves(pad(ones, larger(architecture)))]


def _padded_gradient(
    model: Transformer, padding: Padding, x: Array, outputs: Array
) -> tuple[Array, tuple[Transformer, Array]]:
    return derived(partial(_read, padding=padding), model, x, outputs)


def _read(model: Transformer, x: Array, padding: Padding) -> Array:
    return model(x, padding=padding, pool=pool_for_training)


def _step(
    gradient: Array, state: optax.OptState, parameters: Array, largest_norm: Array, decay: Array
) -> tuple[Array, optax.OptState]:
    optimizer = optax.chain(optax.clip_by_global_norm(largest_norm), optax.adamw(RATE, weight_decay=decay))
    updates, state = optimizer.update(gradient, state, parameters)
    return optax.apply_updates(parameters, updates), state


padded_gradient = jax.jit(_padded_gradient, compiler_options=QUICKLY)
step = jax.jit(_step, compiler_options=QUICKLY)


def train(
    model: Transformer, gradient_of: Callable[[Transformer], Transformer], optimizer: str
) -> Transformer:
    """The model after a few steps of that optimizer."""
    leaves, structure = jax.tree.flatten(model)
    ends = np.cumsum([leaf.size for leaf in leaves])

    # All parameters in one vector of one size: the optimizer then is one program for all architectures.
    def vector(tree: Transformer) -> FloatArray:
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])
        return np.pad(flat, (0, MAX_PARAMETERS - flat.size))

    def model_of(flat: FloatArray) -> Transformer:
        parts = np.split(np.asarray(flat), ends)
        made: Transformer = jax.tree.unflatten(
            structure, [part.reshape(leaf.shape) for part, leaf in zip(parts, leaves, strict=False)]
        )
        return made

    with jax.enable_x64(True):
        parameters = vector(model)
        state = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(RATE)).init(jnp.asarray(parameters))
        for _ in range(STEPS):
            gradient = vector(gradient_of(model_of(parameters)))
            parameters, state = step(gradient, state, parameters, *OPTIMIZERS[optimizer])
    return model_of(parameters)


def padded(name: str) -> Transformer:
    return pad(inputs(name).model, larger(ARCHITECTURES[name]))


def evaluate_padded(name: str, model: Transformer, padding: Padding) -> Derived:
    with jax.enable_x64(True):
        found = padded_gradient(model, padding, inputs(name).x, inputs(name).outputs)
        evaluated: Derived = jax.tree.map(np.asarray, found)
        return evaluated


@lru_cache
def trained(name: str, optimizer: str) -> Transformer:
    """The model of the table as it is."""
    return train(inputs(name).model, lambda model: evaluate(name, model=model).trained[1][0], optimizer)


@lru_cache
def trained_padded(name: str, optimizer: str) -> Transformer:
    """The same in larger arrays."""
    padding = exact_padding(ARCHITECTURES[name])
    return train(padded(name), lambda model: evaluate_padded(name, model, padding)[1][0], optimizer)


@every_architecture
def test_a_padded_model_is_the_same_function(name: str) -> None:
    output, (_, slope) = evaluate_padded(name, padded(name), exact_padding(ARCHITECTURES[name]))
    expected, (_, expected_slope) = evaluated(name, masked=False).folded
    np.testing.assert_allclose(output, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-9, atol=1e-11)


@every_architecture
def test_padding_as_a_user_makes_it_is_right_to_float32(name: str) -> None:
    as_made = jax.tree.map(lambda leaf: leaf.astype(np.float64), Padding.of(ARCHITECTURES[name]).logit_scale)
    padding = replace(Padding.of(ARCHITECTURES[name]), logit_scale=as_made)
    output, _ = evaluate_padded(name, padded(name), padding)
    np.testing.assert_allclose(output, evaluated(name, masked=False).folded[0], rtol=1e-6, atol=1e-6)


@every_architecture
def test_padded_entries_stay_exactly_zero_in_training(name: str) -> None:
    for optimizer in OPTIMIZERS:
        leaves = jax.tree.leaves(trained_padded(name, optimizer))
        for leaf, filled in zip(leaves, padded_entries(ARCHITECTURES[name]), strict=True):
            np.testing.assert_array_equal(leaf[filled], 0)


@every_architecture
@every_optimizer
def test_a_padded_model_trains_as_it_would_alone(name: str, optimizer: str) -> None:
    alone = jax.tree.leaves(trained(name, optimizer))
    among_zeros = jax.tree.leaves(unpad(trained_padded(name, optimizer), ARCHITECTURES[name]))
    for leaf, expected in zip(among_zeros, alone, strict=True):
        np.testing.assert_allclose(leaf, expected, rtol=1e-9, atol=1e-9)


@every_architecture
def test_taking_the_padding_off_gives_back_the_model(name: str) -> None:
    model = Transformer.initialise(ARCHITECTURES[name], seed=5)
    there = pad(model, larger(ARCHITECTURES[name]))
    back = unpad(there, ARCHITECTURES[name])
    assert jax.tree.structure(back) == jax.tree.structure(model)
    assert there.architecture == larger(ARCHITECTURES[name])
    for leaf, expected in zip(jax.tree.leaves(back), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(leaf, expected)
        assert leaf.dtype == expected.dtype


def test_without_the_real_size_a_padded_model_is_another_function() -> None:
    name = "layer norm, one layer"
    given = inputs(name)
    output = jax.jit(lambda x: padded(name)(x))(jnp.asarray(given.x, jnp.float32))
    assert np.abs(output - reference(given.model, given.x).output).max() > 1e-3
