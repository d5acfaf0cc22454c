import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_msmarco import write_tables

from headcount.data.msmarco.embeddings import frozen_embeddings
from headcount.data.msmarco.negatives import alternating, bm25_scores, dense_scores, hardest
from headcount.data.msmarco.texts import texts_of
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(5)
POOL = texts_of([RANDOM.integers(2, 32, size=RANDOM.integers(1, 9)) for _ in range(40)])
QUERIES = texts_of([RANDOM.integers(2, 32, size=size) for size in (3, 1, 0, 5)])


def plain_bm25(query: np.ndarray, k1: float = 1.5, b: float = 0.75) -> np.ndarray:
    lengths = np.diff(POOL.offsets)
    scores = np.zeros(len(POOL))
    for token in query:
        counts = np.array([(POOL[number] == token).sum() for number in range(len(POOL))])
        having = (counts > 0).sum()
        rarity = np.log(1 + (len(POOL) - having + 0.5) / (having + 0.5))
        scores += rarity * counts / (counts + k1 * (1 - b + b * lengths / lengths.mean()))
    return scores


def test_bm25_is_the_formula():
    for number, scores in enumerate(bm25_scores(QUERIES, POOL)):
        np.testing.assert_allclose(scores, plain_bm25(QUERIES[number]), rtol=1e-5, atol=1e-6)
    assert number == len(QUERIES) - 1


def test_dense_is_the_cosine_of_mean_word_vectors(tmp_path):
    write_tables(tmp_path)
    tables = frozen_embeddings(tmp_path)
    many = texts_of([RANDOM.integers(2, 32, size=3) for _ in range(300)])
    for number, scores in enumerate(dense_scores(many, POOL, tables)):
        mean = tables.word[many[number]].astype(float).mean(axis=0)
        for place in (0, 7, 39):
            other = tables.word[POOL[place]].astype(float).mean(axis=0)
            cosine = mean @ other / np.linalg.norm(mean) / np.linalg.norm(other)
            assert scores[place] == pytest.approx(cosine, abs=1e-5)
    assert number == 299


def test_bm25_without_its_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "bm25s", None)
    with pytest.raises(InvalidInput, match=r"bm25s: pip install 'headcount\[real\]'"):
        next(bm25_scores(QUERIES, POOL))


@given(
    scores=st.lists(st.integers(0, 5), min_size=1, max_size=30),
    count=st.integers(1, 35),
    data=st.data(),
)
def test_hardest_are_the_highest_that_are_allowed(scores, count, data):
    places = st.lists(st.integers(0, len(scores) - 1), max_size=8)
    without, among = data.draw(places), data.draw(st.none() | places)
    found = hardest(
        np.array(scores, float),
        count,
        without=np.array(without, int),
        among=None if among is None else np.array(among, int),
    ).tolist()
    allowed = set(range(len(scores)) if among is None else among) - set(without)
    assert len(set(found)) == len(found) == min(count, len(allowed))
    assert set(found) <= allowed
    assert [scores[place] for place in found] == sorted((scores[place] for place in allowed), reverse=True)[
        :count
    ]


@given(
    one=st.lists(st.integers(0, 12), unique=True),
    other=st.lists(st.integers(0, 12), unique=True),
    count=st.integers(0, 20),
)
def test_alternating_takes_half_of_each(one, other, count):
    mixed = alternating(np.array(one, int), np.array(other, int), count).tolist()
    assert len(mixed) == len(set(mixed)) == min(count, len({*one, *other}))
    assert set(mixed) <= {*one, *other}
    if not {*one} & {*other} and min(len(one), len(other)) >= count:
        assert mixed[::2] == one[: (count + 1) // 2]
        assert mixed[1::2] == other[: count // 2]
