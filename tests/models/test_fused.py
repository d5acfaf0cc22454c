"""The kernels for a GPU, interpreted: the same averages and the same gradient as without them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headcount.models.architecture import Architecture
from headcount.models.batches import (
    MAX_FEATURES,
    MAX_HEADS,
    MAX_INPUTS,
    MAX_TOKENS,
    Launch,
    averages,
    launch_of,
)
from headcount.models.fused import fused_averages

INTERPRETED = Launch(sequences=4, interpret=True)


SIZES = {  # features, numbers of a token, heads, sequences, tokens
    "small": (6, 4, 3, 8, 7),
    "no loops": (4, 2, 1, 5, 4),
    "two chunks of tokens": (4, 3, 1, 2, 70),
    "many sums, so half as many tokens": (4, 13, 4, 2, 40),
}
CASES = [
    *(("small", placed, masked) for placed in (False, True) for masked in (False, True)),
    ("no loops", False, False),
    ("two chunks of tokens", True, True),
    ("many sums, so half as many tokens", True, False),
]


@pytest.mark.parametrize(("size", "placed", "masked"), CASES)
def test_the_kernels_agree_with_the_reference(size, placed, masked):
    """In double precision, with sizes that are no powers of two and sequences that do not go round."""
    features, inputs, heads, sequences, length = SIZES[size]
    random = np.random.default_rng(features)
    with jax.enable_x64(True):
        members = 2

        def drawn(*shape: int) -> jax.Array:
            return jnp.asarray(random.normal(size=shape))

        weights, directions = drawn(members, features, inputs), drawn(members, heads, features)
        place = drawn(members, features, length) if placed else None
        x, bar = drawn(members, sequences, inputs, length), drawn(members, sequences, features, heads)
        mask = None
        if masked:
            mask = jnp.asarray(random.random((members, sequences, length)) < 0.5).at[:, :, 0].set(True)

        def found(averages, last):
            def loss(learnt, x, mask, bar):
                return jnp.sum(averages(*learnt, x, mask, last) * bar)

            return jax.vmap(jax.value_and_grad(loss))((weights, place, directions), x, mask, bar)

        ours, reference = found(fused_averages, INTERPRETED), found(averages, None)
        for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(reference), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_the_kernels_can_be_lowered_for_a_gpu():
    """As Triton programs: what they are written in has to be known there."""

    def gradient(weights, directions, x):
        def loss(weights, directions):
            return jnp.sum(fused_averages(weights, None, directions, x, None, Launch()) ** 2)

        return jax.grad(loss, (0, 1))(weights, directions)

    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((2, 32, 5), (2, 4, 32), (2, 16, 5, 128))]
    lowered = jax.jit(jax.vmap(gradient)).trace(*shapes).lower(lowering_platforms=("cuda",))
    assert lowered.as_text().count("custom_call") >= 3


SMALL = Architecture(token_dim=4, heads=4, head_dim=8)


def test_kernels_run_where_the_shape_fits_them():
    assert launch_of(SMALL, 128) == Launch()
    too_large = [
        {"heads": MAX_HEADS + 1},
        {"token_dim": MAX_INPUTS},
        {"encoder_hidden": (MAX_FEATURES + 1,)},
        {"encoder_hidden": (8, 8)},
        {"encoder_activation": "tanh"},
        {"precision": "tensorfloat32"},
        {"layers": 2},
    ]
    assert all(launch_of(replace(SMALL, **change), 128) is None for change in too_large)
    assert launch_of(SMALL, MAX_TOKENS + 1) is None
