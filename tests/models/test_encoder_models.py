"""What must hold for the encoder and for every model built around it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from model_evaluation import QUICKLY
from test_encoder import CLOSE, in_double, stirred
from test_model_precision import products

from headcount.errors import InvalidInput
from headcount.models.encoder import Encoder, EncoderShape
from headcount.models.reranker import JoinedReranker, JoinedShape, Reranker, RerankerShape
from headcount.models.vit import Vit, VitShape

SMALL = EncoderShape(heads=2, head_dim=3, layers=2, feedforward=5)
ROOMY = EncoderShape(heads=2, head_dim=16, layers=2, feedforward=64)
SHAPES = [SMALL, EncoderShape(heads=3, head_dim=1, layers=1, feedforward=2)]
MASK = np.arange(9)[None] < np.array([[9], [5]])
OWNER = np.tile(np.arange(9) % 4 - 1, (2, 1))


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
            normal(2, 9, 4), jnp.asarray(MASK), jnp.asarray(OWNER), candidates=3, key=key
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
    assert shape.parameters() == sum(leaf.size for leaf in first)
    assert {(type(leaf), leaf.dtype) for leaf in first} == {(np.ndarray, np.dtype("float32"))}
    assert all(map(np.array_equal, first, again))
    assert not all(map(np.array_equal, first, other))


@every_case
def test_one_at_a_time_is_the_same_as_all_members_at_once(case: Case) -> None:
    members = [stirred(case.initialise(case.shape(SMALL), seed)) for seed in range(3)]
    pack = jax.tree.map(lambda *leaves: np.stack(leaves), *members)
    together = in_double(jax.vmap(lambda model: case.call(model, None)), pack)
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
    found = products(gradient, case.initialise(case.shape(SMALL), 0))
    assert len(found) >= 2 * 3 * 7
    assert set(found) == {("HIGHEST", "f32")}
    rounded = products(gradient, case.initialise(case.shape(replace(SMALL, precision="bfloat16")), 0))
    kinds = [kind for _, kind in rounded]
    assert set(kinds) <= {"bf16", "f32"}
    assert kinds.count("f32") == case.in_float32
    assert kinds.count("bf16") >= 3 * 2 * 7 - 2


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


HALF = replace(SMALL, dropout=0.5)


@pytest.mark.parametrize(
    "embed",
    [
        lambda key: Vit.initialise(VitShape(32, 8, 10, HALF), 0).embed(normal(4, 16, 192), key=key),
        lambda key: Reranker.initialise(RerankerShape(HALF, 4), 0).scorer.embed(
            normal(2, 9, 4), jnp.asarray(OWNER == -1), key=key
        ),
    ],
    ids=["vit", "reranker"],
)
def test_dropout_is_on_what_the_encoder_is_given(embed: Callable[[Array | None], Array]) -> None:
    whole, dropped = embed(None), np.asarray(embed(jax.random.key(0)))
    assert 0.3 < (dropped == 0).mean() < 0.7
    np.testing.assert_allclose(dropped, np.where(dropped == 0, 0, 2 * whole), rtol=1e-6)


VIT, JOINED = VitShape(32, 8, 10, SMALL), JoinedShape(SMALL, 4)


@pytest.mark.parametrize(
    ("shape", "field", "value", "wanted"),
    [
        *((SMALL, field, 0, "an integer >= 1") for field in ("heads", "head_dim", "layers", "feedforward")),
        (SMALL, "heads", True, "an integer >= 1"),
        (SMALL, "dropout", 1.0, "a finite number >= 0 and <= 0.9"),
        (SMALL, "dropout", float("nan"), "a finite number >= 0 and <= 0.9"),
        (SMALL, "precision", ["float32"], "one of float32, bfloat16"),
        (VIT, "side", 33, "one of 32, 48, 64, 96, 128"),
        (VIT, "patch", 8.0, "one of 4, 8"),
        (VIT, "classes", 1, "an integer >= 2"),
        (VIT, "encoder", None, "an EncoderShape"),
        (JOINED, "encoder", 4, "an EncoderShape"),
        (JOINED, "embedding", 0, "an integer >= 1"),
        (JOINED, "passage_tokens", 0, "an integer >= 1"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_in_one_line(
    shape: Any, field: str, value: object, wanted: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(shape, **{field: value})
    assert str(refusal.value) == f"{field}: expected {wanted}, got {value!r}"


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("encoder", [(5, 6)], "tokens: expected the shape [batch, token, 6], got (5, 6)"),
        ("encoder", [(1, 5, 7)], "tokens: expected the shape [batch, token, 6], got (1, 5, 7)"),
        ("vit", [(2, 17, 192)], "patches: expected the shape [batch, 16, 192], got (2, 17, 192)"),
        ("reranker", [(2, 5), (2, 3, 4)], "query: expected the shape [batch, 4], got (2, 5)"),
        (
            "reranker",
            [(2, 4), (1, 3, 4)],
            "candidates: expected the shape [2, candidate, 4], got (1, 3, 4)",
        ),
        (
            "joined reranker",
            [(2, 7, 5), (2, 7), (2, 7)],
            "tokens: expected the shape [batch, token, 4], got (2, 7, 5)",
        ),
        ("joined reranker", [(2, 7, 4), (2, 6), (2, 7)], "mask: expected the shape [2, 7], got (2, 6)"),
    ],
)
def test_arrays_of_another_shape_are_refused(name: str, sizes: list[tuple[int, ...]], message: str) -> None:
    case = CASES[name]
    model = case.initialise(case.shape(SMALL), 0)
    options = {"candidates": 3} if name == "joined reranker" else {}
    for ask in (model, model.with_attention) if name == "encoder" else (model,):
        with pytest.raises(InvalidInput) as refusal:
            ask(*map(jnp.zeros, sizes), **options)
        assert str(refusal.value) == message


def test_scores_of_no_candidates_are_refused() -> None:
    model = JoinedReranker.initialise(RerankerShape(SMALL, 4), 0)
    with pytest.raises(InvalidInput, match="candidates: expected an integer >= 1, got 0"):
        model(normal(2, 9, 4), jnp.asarray(MASK), jnp.asarray(OWNER), candidates=0)
