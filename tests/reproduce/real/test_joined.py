"""All tokens kept: the frozen embedding on the device, and what a candidate's score may depend on."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from reproduce.real.small import ranking_trial

from headcount.data.msmarco.embeddings import FrozenEmbeddings
from headcount.data.msmarco.texts import texts_of
from headcount.reproduce.real.joined import ENDED, Embedding, first_tokens
from headcount.reproduce.real.trial import problem_of, samples_of


def frozen(seed=0, words=30, places=9, width=6):
    random = np.random.default_rng(seed)
    shapes = ((words, width), (places, width), (2, width), (width,), (width,))
    return FrozenEmbeddings(*(random.normal(size=shape).astype(np.float32) for shape in shapes))


def test_the_mean_over_tokens_is_the_vector_of_the_text():
    """Beside the pooled vectors, which are made in another way."""
    tables, texts = frozen(), texts_of([[3, 4, 29], [0], [7, 7, 1, 2, 5]])
    vectors = Embedding.of(tables)(first_tokens(texts, 5), 1)
    there = first_tokens(texts, 5) != ENDED
    means = (np.asarray(vectors) * there[..., None]).sum(axis=1) / there.sum(axis=1)[:, None]
    np.testing.assert_allclose(means, tables.pooled(texts.tokens, texts.offsets, 1, max_tokens=5), atol=1e-5)


@pytest.mark.parametrize("kind", [np.int32, np.uint16])  # as they come from text, and from compact files
def test_texts_are_cut_and_filled_up(kind):
    texts = texts_of([[5, 6, 7], [], [8]])
    cut = first_tokens(replace(texts, tokens=texts.tokens.astype(kind)), 2)
    assert cut.tolist() == [[5, 6], [ENDED, ENDED], [8, ENDED]]


@pytest.fixture
def whole():
    """A problem, its model and samples, and the sequence of its first list."""
    trial = ranking_trial(joined=True)
    problem, samples = problem_of(trial), jax.device_put(samples_of(trial))
    return problem, problem.start(0), samples, problem.read(samples.texts, samples.train[np.array([0])])


def test_what_is_not_there_does_not_count(whole):
    problem, model, _, (tokens, around) = whole
    kept = around.there[:, around.query.shape[1] :]
    assert not bool(kept.all()), "texts of one token leave places empty"
    assert around.there.shape == (1, 2 + 4 * 3) == (1, ranking_trial(joined=True).architecture.sequence(4))
    other = jnp.where(kept[..., None], tokens, 99.0)
    np.testing.assert_allclose(
        problem.scores(model, tokens, around), problem.scores(model, other, around), atol=1e-5
    )


def test_the_order_of_candidates_moves_the_scores_with_it(whole):
    problem, model, samples, read = whole
    lists = samples.train[np.array([0])]
    turned = type(lists)(lists.query, lists.candidates[:, ::-1], lists.label)
    there = problem.scores(model, *problem.read(samples.texts, turned))
    np.testing.assert_allclose(there[:, ::-1], problem.scores(model, *read), atol=1e-5)
