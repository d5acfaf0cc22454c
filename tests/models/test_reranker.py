"""Both re-rankers beside a plain NumPy one, and what must hold for every list of candidates."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array
from model_references import BoolArray, FloatArray
from test_encoder import CLOSE, assert_gradients_are_slopes, in_double, linear, reference, stirred

from headcount.models.encoder import EncoderShape
from headcount.models.reranker import JoinedReranker, JoinedShape, Reranker, RerankerShape, Scorer

IntArray = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Lists = tuple[FloatArray, BoolArray, IntArray]

ENCODER = EncoderShape(heads=2, head_dim=3, layers=2, feedforward=5)
SHAPE = RerankerShape(ENCODER, embedding=4)
BATCH, CANDIDATES = 2, 5

quickly = settings(max_examples=12, deadline=None)
orders = st.permutations(range(CANDIDATES))
seeds = st.integers(0, 2**32 - 1)


@lru_cache
def scorer() -> Scorer:
    return stirred(Scorer.initialise(SHAPE, 3))


def one_token_each(seed: int = 0) -> Lists:
    """The first token is the query's, the next candidate 0's, and so on."""
    owner = np.tile(np.arange(-1, CANDIDATES), (BATCH, 1))
    return np.random.default_rng(seed).normal(size=(*owner.shape, 4)), owner >= -1, owner


def any_tokens(seed: int = 0) -> Lists:
    """Tokens in no order, some of them missing; every candidate has one that is there, but for the last."""
    random = np.random.default_rng(seed)
    owner = np.stack([random.permutation([-1, -1, *range(CANDIDATES - 1), 0, 2, 3]) for _ in range(BATCH)])
    mask = np.ones(owner.shape, bool)
    for number in range(BATCH):
        mask[number, np.flatnonzero(owner[number] == 2)[0]] = False
    return random.normal(size=(*owner.shape, 4)), mask, owner


def plain_scores(scorer: Scorer, tokens: FloatArray, mask: BoolArray, owner: IntArray) -> FloatArray:
    """Tokens projected and marked, encoded, averaged over each candidate's, times a vector."""
    scores = np.full((BATCH, CANDIDATES), -np.inf)
    for number, sequence in enumerate(tokens):
        marked = [
            linear(scorer.projection, token) + (who == -1) * np.asarray(scorer.query_mark)
            for token, who in zip(sequence, owner[number], strict=True)
        ]
        states = reference(scorer.encoder, np.array([marked]), mask[number : number + 1])[0][0]
        for candidate in range(CANDIDATES):
            own = states[mask[number] & (owner[number] == candidate)]
            if len(own):
                scores[number, candidate] = np.asarray(scorer.score) @ own.mean(axis=0)
    return scores


def separate(scorer: Scorer, tokens: Array, mask: Array, owner: Array) -> Array:
    return Reranker(scorer)(tokens[:, 0], tokens[:, 1:])


def joined(scorer: Scorer, tokens: Array, mask: Array, owner: Array) -> Array:
    return JoinedReranker(scorer)(tokens, mask, owner, candidates=CANDIDATES)


_compiled = {program: jax.jit(program) for program in (separate, joined)}


def scored(program: Callable[..., Array], *lists: Any) -> FloatArray:
    with jax.enable_x64(True):
        return np.asarray(_compiled[program](scorer(), *lists))


@pytest.mark.parametrize(("program", "lists"), [(separate, one_token_each), (joined, any_tokens)])
def test_scores_and_gradients_are_those_of_the_plain_formula(
    program: Callable[..., Array], lists: Callable[[], Lists]
) -> None:
    found = scored(program, *lists())
    np.testing.assert_allclose(found, plain_scores(scorer(), *lists()), **CLOSE)
    missing = lists is any_tokens  # its last candidate has no tokens, and so is never chosen
    assert np.isinf(found).sum(axis=1).tolist() == [missing] * BATCH

    def plain_loss(model: Scorer) -> float:
        odds = np.exp(plain_scores(model, *lists()))
        return float(-np.log(odds[:, 1] / odds.sum(axis=1)).sum())

    slopes = in_double(
        jax.grad(lambda model, *lists: -jax.nn.log_softmax(program(model, *lists))[:, 1].sum()),
        scorer(),
        *lists(),
    )
    assert_gradients_are_slopes(slopes, scorer(), plain_loss)


@quickly
@given(order=orders, seed=seeds)
def test_permuted_candidates_have_permuted_scores(order: list[int], seed: int) -> None:
    tokens, mask, owner = one_token_each(seed)
    found = scored(separate, tokens[:, [0, *(1 + np.array(order))]], mask, owner)
    np.testing.assert_allclose(found, scored(separate, tokens, mask, owner)[:, order], **CLOSE)


@quickly
@given(order=orders, seed=seeds)
def test_renumbered_candidates_have_the_scores_of_the_same_tokens(order: list[int], seed: int) -> None:
    tokens, mask, owner = any_tokens(seed)
    renamed = np.where(owner == -1, -1, np.array(order)[owner])
    found = scored(joined, tokens, mask, renamed)[:, order]
    np.testing.assert_allclose(found, scored(joined, tokens, mask, owner), **CLOSE)


def test_the_query_is_not_one_more_candidate() -> None:
    tokens, mask, owner = one_token_each()
    swapped = tokens[:, [1, 0, *range(2, 1 + CANDIDATES)]]
    moved = scored(separate, swapped, mask, owner) - scored(separate, tokens, mask, owner)
    assert np.abs(moved[:, 1:]).max() > 1e-3


def test_a_shape_counts_the_tokens_of_query_and_passages() -> None:
    assert JoinedShape(ENCODER, 4, query_tokens=3, passage_tokens=5).sequence(7) == 3 + 7 * 5
    assert SHAPE.sequence(7) == 8
