"""Both re-rankers beside plain NumPy ones, and what must hold for every list of candidates."""

from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array
from model_references import BoolArray, FloatArray
from test_encoder import (
    CLOSE,
    assert_gradients_are_slopes,
    in_double,
    linear,
    reference,
    stirred,
)

from headcount.errors import InvalidInput
from headcount.models.encoder import EncoderShape
from headcount.models.reranker import JoinedReranker, JoinedShape, Reranker, RerankerShape, Scorer

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

ENCODER = EncoderShape(heads=2, head_dim=3, layers=2, feedforward=5)
SHAPE = RerankerShape(ENCODER, embedding=4)
BATCH, CANDIDATES, TOKENS = 2, 5, 9

quickly = settings(max_examples=12)
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
    assert (found[:, -1] == -np.inf).all(), "a candidate without tokens is never chosen"


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


def test_the_query_is_not_one_more_candidate() -> None:
    query, candidates = lists()
    swapped = np.concatenate([query[:, None], candidates[:, 1:]], axis=1)
    moved = scored(reranker(), candidates[:, 0], swapped) - scored(reranker(), query, candidates)
    assert np.abs(moved[:, 1:]).max() > 1e-3


def test_dropout_is_on_what_the_encoder_is_given() -> None:
    scorer = Scorer.initialise(replace(SHAPE, encoder=replace(ENCODER, dropout=0.5)), seed=0)
    tokens, _, owner = map(jnp.asarray, joined_lists())
    whole = scorer.embed(tokens, owner == -1)
    dropped = np.asarray(scorer.embed(tokens, owner == -1, key=jax.random.key(0)))
    assert 0.3 < (dropped == 0).mean() < 0.7
    np.testing.assert_allclose(dropped, np.where(dropped == 0, 0, 2 * whole), rtol=1e-6)


def test_a_shape_that_cannot_be_is_refused_in_one_line() -> None:
    with pytest.raises(InvalidInput, match=r"^embedding: expected an integer >= 1, got 0$"):
        replace(SHAPE, embedding=0)
    with pytest.raises(InvalidInput, match=r"^encoder: expected an EncoderShape, got 4$"):
        replace(SHAPE, encoder=4)  # type: ignore[arg-type]


def test_a_joined_shape_counts_the_tokens_of_query_and_passages() -> None:
    assert JoinedShape(ENCODER, 4, query_tokens=3, passage_tokens=5).sequence(7) == 3 + 7 * 5
    assert SHAPE.sequence(7) == 8
    with pytest.raises(InvalidInput, match="passage_tokens"):
        JoinedShape(ENCODER, 4, passage_tokens=0)


@pytest.mark.parametrize(
    ("query", "candidates", "message"),
    [
        ((2, 5), (2, 3, 4), "query: expected the shape [batch, 4], got (2, 5)"),
        ((2, 4), (1, 3, 4), "candidates: expected the shape [2, candidate, 4], got (1, 3, 4)"),
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
        ((2, 7, 5), (2, 7), (2, 7), 3, "tokens: expected the shape [batch, token, 4], got (2, 7, 5)"),
        ((2, 7, 4), (2, 6), (2, 7), 3, "mask: expected the shape [2, 7], got (2, 6)"),
        ((2, 7, 4), (2, 7), (2, 7), 0, "candidates: expected an integer >= 1, got 0"),
    ],
)
def test_joined_lists_of_another_shape_are_refused(
    tokens: tuple[int, ...], mask: tuple[int, ...], owner: tuple[int, ...], candidates: int, message: str
) -> None:
    model = JoinedReranker.initialise(SHAPE, seed=0)
    with pytest.raises(InvalidInput) as refusal:
        model(jnp.zeros(tokens), jnp.ones(mask, bool), jnp.zeros(owner, int), candidates=candidates)
    assert str(refusal.value) == message
