"""What must hold for the encoder and for every model built around it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.lax import Precision
from jaxtyping import Array
from model_evaluation import QUICKLY
from test_encoder import CLOSE, entries, in_double, products, stacked, stirred
from test_model_precision import both, precisions

from headcount.models.encoder import Encoder, EncoderShape
from headcount.models.reranker import JoinedReranker, Reranker, RerankerShape
from headcount.models.vit import Vit, VitShape

SMALL = EncoderShape(heads=2, head_dim=3, layers=2, feedforward=5)
ROOMY = EncoderShape(heads=2, head_dim=16, layers=2, feedforward=64)
SHAPES = [SMALL, EncoderShape(heads=3, head_dim=1, layers=1, feedforward=2)]
MASK = np.arange(9)[None] < np.array([[9], [5]])
OWNER = np.stack([np.arange(9) % 4 - 1] * 2)


@dataclass(frozen=True)
class Case:
    """How a model is described, made and called; how many of its products stay in float32, forth and back."""

    shape: Callable[[EncoderShape], Any]
    initialise: Callable[[Any, int], Any]
    call: Callable[[Any, Array | None], Array]
    in_float32: int


def normal(*sizes: int) -> Array:
    return jnp.asarray(np.random.default_rng(1).normal(size=sizes))


CASES = {
    "encoder": Case(
        lambda encoder: encoder,
        lambda shape, seed: Encoder.initialise(shape, np.random.default_rng(seed)),
        lambda model, key: model(normal(2, 9, model.shape.width), mask=jnp.asarray(MASK), key=key),
        in_float32=0,
    ),
    "vit": Case(
        lambda encoder: VitShape(32, 8, 10, encoder),
        Vit.initialise,
        lambda model, key: model(normal(2, 16, 192), key=key),
        in_float32=3,  # the head, forth and twice back
    ),
    "reranker": Case(
        lambda encoder: RerankerShape(encoder, 4),
        Reranker.initialise,
        lambda model, key: model(normal(2, 4), normal(2, 5, 4), key=key),
        in_float32=3,  # the scores
    ),
    "joined reranker": Case(
        lambda encoder: RerankerShape(encoder, 4),
        JoinedReranker.initialise,
        lambda model, key: model(
            normal(2, 9, 4),
            jnp.asarray(MASK),
            jnp.arange(9)[None] % 4 - jnp.ones((2, 1), int),
            candidates=3,
            key=key,
        ),
        in_float32=5,  # the scores, and the means over a candidate's tokens
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
@pytest.mark.parametrize("encoder", SHAPES)
def test_every_number_is_counted_and_follows_from_the_seed(case: Case, encoder: EncoderShape) -> None:
    shape = case.shape(encoder)
    first, again, other = (jax.tree.leaves(case.initialise(shape, seed)) for seed in (1, 1, 2))
    assert shape.parameters() == entries(first)
    assert {(type(leaf), leaf.dtype) for leaf in first} == {(np.ndarray, np.dtype("float32"))}
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


@every_case
def test_one_at_a_time_is_the_same_as_all_members_at_once(case: Case) -> None:
    members = [stirred(case.initialise(case.shape(SMALL), seed)) for seed in range(3)]
    together = in_double(jax.vmap(lambda model: case.call(model, None)), stacked(members))
    for member, found in zip(members, together, strict=True):
        np.testing.assert_allclose(found, in_double(lambda one: case.call(one, None), member), **CLOSE)


@every_case
def test_keys_decide_what_is_dropped_and_none_drops_nothing(case: Case) -> None:
    program = jax.jit(case.call, compiler_options=QUICKLY)

    def outputs(rate: float, seed: int | None) -> np.ndarray:
        model = case.initialise(case.shape(replace(SMALL, dropout=rate)), 3)
        return np.asarray(program(model, None if seed is None else jax.random.key(seed)))

    np.testing.assert_array_equal(outputs(0.3, 1), outputs(0.3, 1))
    np.testing.assert_allclose(outputs(0.3, None), outputs(0.0, 1), rtol=1e-5, atol=1e-6)
    assert np.abs(outputs(0.3, 1) - outputs(0.3, 2)).max() > 0.01
    assert np.abs(outputs(0.3, 1) - outputs(0.3, None)).max() > 0.01


@every_case
def test_every_product_is_in_full_float32_unless_asked_otherwise(case: Case) -> None:
    gradient = jax.grad(lambda model: (case.call(model, None) ** 2).sum())
    found = precisions(gradient, case.initialise(case.shape(SMALL), 0))
    assert len(found) >= 2 * 3 * 7
    assert set(found) == {both(Precision.HIGHEST)}
    model = case.initialise(case.shape(replace(SMALL, precision="bfloat16")), 0)
    rounded = products(jax.jit(gradient).lower(model).as_text())
    assert set(rounded) <= {"bf16", "f32"}
    assert rounded.count("f32") == case.in_float32
    assert rounded.count("bf16") >= 3 * 2 * 7 - 2


@every_case
def test_bfloat16_is_float32_to_a_few_percent(case: Case) -> None:
    def summed(model: Any) -> tuple[Array, Array]:
        outputs = case.call(model, None)
        return jnp.sum(outputs * jnp.cos(jnp.arange(outputs.shape[-1]))), outputs

    program = jax.jit(jax.value_and_grad(summed, has_aux=True), compiler_options=QUICKLY)
    (_, expected), slopes = program(case.initialise(case.shape(ROOMY), 0))
    rounded = case.shape(replace(ROOMY, precision="bfloat16"))
    (_, found), rounded_slopes = program(case.initialise(rounded, 0))
    assert found.dtype == np.float32
    assert 0 < np.abs(found - expected).max() < 0.06 * np.abs(expected).max()
    for slope, wanted in zip(jax.tree.leaves(rounded_slopes), jax.tree.leaves(slopes), strict=True):
        assert slope.dtype == np.float32
        assert np.linalg.norm(slope - wanted) < 0.05 * np.linalg.norm(wanted) + 0.05
