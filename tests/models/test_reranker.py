"""Both re-rankers beside plain NumPy ones, and what must hold for every list of candidates."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.lax import Precision
from jaxtyping import Array
from model_evaluation import QUICKLY
from model_references import BoolArray, FloatArray
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

from headcount.errors import InvalidInput
from headcount.models.encoder import EncoderShape
from headcount.models.reranker import JoinedReranker, Reranker, RerankerShape, Scorer

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

ENCODER = EncoderShape(heads=2, head_dim=3, layers=2, feedforward=5)
SHAPE = RerankerShape(ENCODER, embedding=4)
BATCH, CANDIDATES, TOKENS = 2, 5, 9

quickly = settings(max_examples=12, deadline=None)
orders = st.permutations(range(CANDIDATES))
seeds = st.integers(0, 2**32 - 1)


@lru_cache
def reranker() -> Reranker:
    return stirred(Reranker.initialise(SHAPE, 3))


def joined() -> JoinedReranker:
    return JoinedReranker(reranker().scorer)


def lists(seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Queries and their candidates."""
    random = np.random.default_rng(seed)
    return random.normal(size=(BATCH, 4)), random.normal(size=(BATCH, CANDIDATES, 4))


def joined_lists(seed: int = 0) -> tuple[FloatArray, BoolArray, IntArray]:
    """Tokens in no order, some of them missing; every candidate has one that is there, but for the last."""
    random = np.random.default_rng(seed)
    owner = np.stack([random.permutation([-1, -1, *range(CANDIDATES - 1), 0, 2, 3]) for _ in range(BATCH)])
    mask = np.ones((BATCH, TOKENS), bool)
    for number in range(BATCH):
        mask[number, np.flatnonzero(owner[number] == 2)[0]] = False
    return random.normal(size=(BATCH, TOKENS, 4)), mask, owner


def score_reference(
    scorer: Scorer, tokens: FloatArray, mask: BoolArray, owner: IntArray, candidates: int
) -> FloatArray:
    """One list: tokens projected and marked, encoded, averaged over each candidate's, times a vector."""
    projected = [linear(scorer.projection, token) for token in tokens]
    marked = [
        token + np.asarray(scorer.query_mark) if who == -1 else token
        for token, who in zip(projected, owner, strict=True)
    ]
    states = reference(scorer.encoder, np.array([marked]), mask[None])[0][0]
    scores = np.full(candidates, -np.inf)
    for candidate in range(candidates):
        own = [
            state for state, there, who in zip(states, mask, owner, strict=True) if there and who == candidate
        ]
        if own:
            scores[candidate] = np.asarray(scorer.score) @ np.mean(own, axis=0)
    return scores


def reranker_reference(model: Reranker, query: FloatArray, candidates: FloatArray) -> FloatArray:
    """A token each: the query's belongs to nobody, the next to candidate 0, and so on."""
    count = candidates.shape[1]
    return np.array(
        [
            score_reference(
                model.scorer, np.array([one, *many]), np.ones(1 + count, bool), np.arange(-1, count), count
            )
            for one, many in zip(query, candidates, strict=True)
        ]
    )


def joined_reference(
    model: JoinedReranker, tokens: FloatArray, mask: BoolArray, owner: IntArray
) -> FloatArray:
    lists = zip(tokens, mask, owner, strict=True)
    return np.array([score_reference(model.scorer, *one, CANDIDATES) for one in lists])


def _scores(model: Reranker, query: Array, candidates: Array) -> Array:
    return model(query, candidates)


def _joined_scores(model: JoinedReranker, tokens: Array, mask: Array, owner: Array) -> Array:
    return model(tokens, mask, owner, candidates=CANDIDATES)


_compiled, _joined_compiled = jax.jit(_scores), jax.jit(_joined_scores)


def scored(model: Reranker, query: FloatArray, candidates: FloatArray) -> FloatArray:
    with jax.enable_x64(True):
        return np.asarray(_compiled(model, query, candidates))


def joined_scored(model: JoinedReranker, tokens: FloatArray, mask: BoolArray, owner: IntArray) -> FloatArray:
    with jax.enable_x64(True):
        return np.asarray(_joined_compiled(model, tokens, mask, owner))


def test_scores_are_those_of_the_plain_formula() -> None:
    found = scored(reranker(), *lists())
    assert found.shape == (BATCH, CANDIDATES)
    np.testing.assert_allclose(found, reranker_reference(reranker(), *lists()), **CLOSE)


def test_joined_scores_are_those_of_the_plain_formula() -> None:
    found = joined_scored(joined(), *joined_lists())
    assert found.shape == (BATCH, CANDIDATES)
    np.testing.assert_allclose(found, joined_reference(joined(), *joined_lists()), **CLOSE)


def test_gradients_are_slopes_of_the_plain_formula() -> None:
    outputs = np.random.default_rng(2).normal(size=(BATCH, CANDIDATES))
    slopes = in_double(jax.grad(lambda model: (model(*lists()) * outputs).sum()), reranker())
    assert_gradients_are_slopes(
        slopes, reranker(), lambda model: float((reranker_reference(model, *lists()) * outputs).sum())
    )


def test_joined_gradients_are_slopes_of_the_plain_formula_even_where_a_candidate_is_missing() -> None:
    def loss(model: JoinedReranker) -> Array:
        return -jax.nn.log_softmax(_joined_scores(model, *map(jnp.asarray, joined_lists())))[:, 1].sum()

    def plain_loss(model: JoinedReranker) -> float:
        odds = np.exp(joined_reference(model, *joined_lists()))
        return float(-np.log(odds[:, 1] / odds.sum(axis=1)).sum())

    with jax.enable_x64(True):
        slopes = in_double(jax.grad(loss), joined())
    assert_gradients_are_slopes(slopes, joined(), plain_loss)


@quickly
@given(order=orders, seed=seeds)
def test_permuted_candidates_have_permuted_scores(order: list[int], seed: int) -> None:
    query, candidates = lists(seed)
    found = scored(reranker(), query, candidates[:, order])
    np.testing.assert_allclose(found, scored(reranker(), query, candidates)[:, order], **CLOSE)


@quickly
@given(order=orders, seed=seeds)
def test_joined_candidates_of_other_numbers_have_the_scores_of_the_same_tokens(
    order: list[int], seed: int
) -> None:
    tokens, mask, owner = joined_lists(seed)
    renamed = np.where(owner == -1, -1, np.array(order)[owner])
    found = joined_scored(joined(), tokens, mask, renamed)[:, order]
    np.testing.assert_allclose(found, joined_scored(joined(), tokens, mask, owner), **CLOSE)


@quickly
@given(order=st.permutations(range(TOKENS)), seed=seeds)
def test_the_order_of_joined_tokens_does_not_matter(order: list[int], seed: int) -> None:
    given_lists = joined_lists(seed)
    found = joined_scored(joined(), *(array[:, order] for array in given_lists))
    np.testing.assert_allclose(found, joined_scored(joined(), *given_lists), **CLOSE)


@quickly
@given(seed=seeds)
def test_tokens_that_are_not_there_change_nothing(seed: int) -> None:
    tokens, mask, owner = joined_lists(seed)
    changed = np.where(mask[..., None], tokens, 100 * np.random.default_rng(seed).normal(size=tokens.shape))
    expected = joined_scored(joined(), tokens, mask, owner)
    np.testing.assert_allclose(joined_scored(joined(), changed, mask, owner), expected, **CLOSE)
    other_owner = np.where(mask, owner, 4)
    np.testing.assert_allclose(joined_scored(joined(), tokens, mask, other_owner), expected, **CLOSE)


def test_candidates_of_one_token_each_are_scored_the_same_by_both() -> None:
    query, candidates = lists()
    tokens = np.concatenate([query[:, None], candidates], axis=1)
    owner = np.tile(np.arange(-1, CANDIDATES), (BATCH, 1))
    found = joined_scored(joined(), tokens, np.ones(owner.shape, bool), owner)
    np.testing.assert_allclose(found, scored(reranker(), query, candidates), **CLOSE)


def test_a_candidate_without_tokens_is_never_chosen() -> None:
    found = joined_scored(joined(), *joined_lists())
    assert (found[:, -1] == -np.inf).all()
    assert np.isfinite(found[:, :-1]).all()


def test_the_query_is_not_one_more_candidate() -> None:
    query, candidates = lists()
    swapped = np.concatenate([query[:, None], candidates[:, 1:]], axis=1)
    moved = scored(reranker(), candidates[:, 0], swapped) - scored(reranker(), query, candidates)
    assert np.abs(moved[:, 1:]).max() > 1e-3


def test_one_at_a_time_is_the_same_as_all_members_at_once() -> None:
    members = [stirred(Reranker.initialise(SHAPE, seed)) for seed in range(3)]
    together = in_double(jax.vmap(_scores, (0, None, None)), stacked(members), *lists())
    for member, found in zip(members, together, strict=True):
        np.testing.assert_allclose(found, reranker_reference(member, *lists()), **CLOSE)
    all_joined = JoinedReranker(stacked(members).scorer)
    together = in_double(jax.vmap(_joined_scores, (0, None, None, None)), all_joined, *joined_lists())
    for member, found in zip(members, together, strict=True):
        expected = joined_reference(JoinedReranker(member.scorer), *joined_lists())
        np.testing.assert_allclose(found, expected, **CLOSE)


def test_keys_decide_what_is_dropped_and_none_drops_nothing() -> None:
    def scores(rate: float, seed: int | None) -> list[FloatArray]:
        shape = replace(SHAPE, encoder=replace(ENCODER, dropout=rate))
        key = None if seed is None else jax.random.key(seed)
        found = program(Reranker.initialise(shape, seed=3), JoinedReranker.initialise(shape, seed=3), key)
        return [np.asarray(found[0]), np.asarray(found[1])[:, :-1]]

    def asked(model: Reranker, joined: JoinedReranker, key: Array | None) -> tuple[Array, Array]:
        return (
            model(*map(jnp.asarray, lists()), key=key),
            joined(*map(jnp.asarray, joined_lists()), candidates=CANDIDATES, key=key),
        )

    program = jax.jit(asked, compiler_options=QUICKLY)
    runs = zip(scores(0.3, 1), scores(0.3, 1), scores(0.3, 2), scores(0.3, None), scores(0.0, 1), strict=True)
    for first, again, other, without, rateless in runs:
        np.testing.assert_array_equal(first, again)
        np.testing.assert_allclose(without, rateless, rtol=1e-5, atol=1e-6)
        assert np.abs(first - other).max() > 0.01
        assert np.abs(first - without).max() > 0.01


def test_dropout_is_on_what_the_encoder_is_given() -> None:
    scorer = Scorer.initialise(replace(SHAPE, encoder=replace(ENCODER, dropout=0.5)), seed=0)
    tokens, _, owner = map(jnp.asarray, joined_lists())
    whole = scorer.embed(tokens, owner == -1)
    dropped = np.asarray(scorer.embed(tokens, owner == -1, key=jax.random.key(0)))
    assert 0.3 < (dropped == 0).mean() < 0.7
    np.testing.assert_allclose(dropped, np.where(dropped == 0, 0, 2 * whole), rtol=1e-6)


def _both_gradients(
    model: Reranker, arrays: tuple[Array, Array], joined: tuple[Array, Array, Array]
) -> Reranker:
    def total(model: Reranker) -> Array:
        scores = JoinedReranker(model.scorer)(*joined, candidates=CANDIDATES - 1)
        return (model(*arrays) ** 2).sum() + (scores**2).sum()

    return jax.grad(total)(model)


def test_every_product_is_in_full_float32_unless_asked_otherwise() -> None:
    arrays = (tuple(map(jnp.asarray, lists())), tuple(map(jnp.asarray, joined_lists())))
    found = precisions(_both_gradients, Reranker.initialise(SHAPE, seed=0), *arrays)
    assert len(found) > 2 * 2 * 3 * 7
    assert set(found) == {both(Precision.HIGHEST)}
    shape = replace(SHAPE, encoder=replace(ENCODER, precision="bfloat16"))
    model = Reranker.initialise(shape, seed=0)
    rounded = products(jax.jit(_both_gradients).lower(model, *arrays).as_text())
    # All but the scores, and the means over a candidate's tokens.
    assert sorted(set(rounded)) == ["bf16", "f32"]
    assert rounded.count("f32") == 3 + 3 + 2


def test_bfloat16_is_float32_to_a_few_percent() -> None:
    encoder = EncoderShape(heads=2, head_dim=16, layers=2, feedforward=64)
    shape = RerankerShape(encoder, embedding=4)

    def summed(model: Reranker) -> tuple[Array, tuple[Array, Array]]:
        scores = model(*map(jnp.asarray, lists()))
        others = _joined_scores(JoinedReranker(model.scorer), *map(jnp.asarray, joined_lists()))[:, :-1]
        return jnp.sum(scores**2) + jnp.sum(others**2), (scores, others)

    program = jax.jit(jax.value_and_grad(summed, has_aux=True), compiler_options=QUICKLY)
    (_, expected), _ = program(Reranker.initialise(shape, seed=0))
    rounded = replace(shape, encoder=replace(encoder, precision="bfloat16"))
    (_, found), slopes = program(Reranker.initialise(rounded, seed=0))
    for scores, wanted in zip(found, expected, strict=True):
        assert scores.dtype == np.float32
        assert 0 < np.abs(scores - wanted).max() < 0.05 * np.abs(wanted).max()
    for slope in jax.tree.leaves(slopes):
        assert slope.dtype == np.float32
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("kind", [Reranker, JoinedReranker])
@pytest.mark.parametrize("shape", [SHAPE, RerankerShape(replace(ENCODER, heads=3, layers=1))])
def test_every_number_is_counted(kind: type[Reranker | JoinedReranker], shape: RerankerShape) -> None:
    start = kind.initialise(shape, seed=0)
    assert shape.parameters() == entries(start)
    assert {(type(leaf), leaf.dtype) for leaf in jax.tree.leaves(start)} == {
        (np.ndarray, np.dtype("float32"))
    }


def test_the_seed_decides_the_start() -> None:
    first, again, other = (Reranker.initialise(SHAPE, seed=seed) for seed in (1, 1, 2))
    assert all(map(np.array_equal, jax.tree.leaves(first), jax.tree.leaves(again)))
    assert not np.array_equal(first.scorer.score, other.scorer.score)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("embedding", 0, "a whole number from 1 up"),
        ("embedding", 384.0, "a whole number from 1 up"),
        ("encoder", 4, "an EncoderShape"),
    ],
)
def test_a_shape_that_cannot_be_is_refused_in_one_line(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(SHAPE, **{field: value})
    assert str(refusal.value) == f"{field} = {value!r}: allowed is {allowed}"


@pytest.mark.parametrize(
    ("query", "candidates", "message"),
    [
        ((2, 5), (2, 3, 4), "query of shape (2, 5): allowed is [batch, 4]"),
        ((4,), (2, 3, 4), "query of shape (4,): allowed is [batch, 4]"),
        ((2, 4), (3, 4), "candidates of shape (3, 4): allowed is [2, candidate, 4]"),
        ((2, 4), (1, 3, 4), "candidates of shape (1, 3, 4): allowed is [2, candidate, 4]"),
    ],
)
def test_lists_of_another_shape_are_refused(
    query: tuple[int, ...], candidates: tuple[int, ...], message: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Reranker.initialise(SHAPE, seed=0)(jnp.zeros(query), jnp.zeros(candidates))
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("tokens", "mask", "owner", "candidates", "message"),
    [
        ((2, 7, 5), (2, 7), (2, 7), 3, "tokens of shape (2, 7, 5): allowed is [batch, token, 4]"),
        ((2, 7, 4), (2, 6), (2, 7), 3, "mask of shape (2, 6): allowed is [2, 7]"),
        ((2, 7, 4), (2, 7), (7,), 3, "owner of shape (7,): allowed is [2, 7]"),
        ((2, 7, 4), (2, 7), (2, 7), 0, "candidates = 0: allowed is a whole number from 1 up"),
    ],
)
def test_joined_lists_of_another_shape_are_refused(
    tokens: tuple[int, ...], mask: tuple[int, ...], owner: tuple[int, ...], candidates: int, message: str
) -> None:
    model = JoinedReranker.initialise(SHAPE, seed=0)
    with pytest.raises(InvalidInput) as refusal:
        model(jnp.zeros(tokens), jnp.ones(mask, bool), jnp.zeros(owner, int), candidates=candidates)
    assert str(refusal.value) == message
