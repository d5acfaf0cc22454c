"""Lists to learn from and to validate on: what they hold, and that they share nothing."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_msmarco import Tiny, content, passage_text, query_text

from headcount.data.msmarco.draw import Question, parted
from headcount.data.msmarco.loading import load
from headcount.data.msmarco.rankings import Lists, Rankings
from headcount.data.msmarco.source import Options
from headcount.data.msmarco.texts import texts_of
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(11)
LISTS = 4_000
PASSAGES = texts_of([[number, 1] for number in range(40)])
QUERIES = texts_of([[number] for number in range(2 * LISTS)])


def lists(first: int, *, start: int = 0, count: int = LISTS) -> Lists:
    drawn = np.argsort(RANDOM.random((count, 20)), axis=1)[:, :8] + first
    return Lists(np.arange(start, start + count), drawn[:, 0], drawn[:, 1:])


TRAIN, VALIDATION = lists(0, count=50), lists(20, start=50, count=50)
SMALL = Rankings("made", PASSAGES, QUERIES, TRAIN, VALIDATION)
NUMBERS = st.lists(st.integers(0, 39), max_size=6).map(lambda found: np.array(found, np.int64))
QUESTIONS = st.lists(
    st.builds(Question, st.integers(0, 15), NUMBERS.filter(lambda found: len(found) > 0), NUMBERS),
    max_size=12,
)


@pytest.mark.parametrize("length", [2, 5, 8])
def test_fewer_candidates_are_the_positive_and_the_hardest_at_places_that_say_nothing(length):
    whole = lists(0)
    part = whole.at(length)
    np.testing.assert_array_equal(part.candidates[np.arange(LISTS), part.label], whole.positive)
    np.testing.assert_array_equal(
        np.sort(part.candidates),
        np.sort(np.concatenate([whole.positive[:, None], whole.negatives[:, : length - 1]], axis=1)),
    )
    hardest = (part.candidates == part.negatives[:, :1]).argmax(axis=1)
    for places in (part.label, hardest):
        counts = np.bincount(places, minlength=length)
        np.testing.assert_allclose(counts, LISTS / length, atol=5 * np.sqrt(LISTS / length))
    assert abs((hardest > part.label).mean() - 0.5) < 5 * 0.5 / np.sqrt(LISTS)


def test_negatives_drawn_evenly_are_as_hard_at_every_length():
    ahead = np.random.default_rng(3).integers(0, 8, size=LISTS)
    whole = replace(lists(0), ahead=ahead)
    assert whole.search_right == pytest.approx(1 - ahead.mean() / 7)
    shorter = None
    for length in (2, 4, 8):
        hardest, even = whole.at(length), whole.at(length, evenly=True)
        assert even.search_right == pytest.approx(whole.search_right, abs=0.03)
        assert hardest.search_right == pytest.approx(1 - np.minimum(ahead, length - 1).mean() / (length - 1))
        above = (even.negatives[:, :, None] == whole.negatives[:, None]).argmax(axis=2) < ahead[:, None]
        np.testing.assert_array_equal(above.sum(axis=1), even.ahead)
        if shorter is not None:
            assert all(set(few) <= set(many) for few, many in zip(shorter, even.negatives, strict=True))
        shorter = even.negatives
    np.testing.assert_array_equal(shorter, whole.negatives)
    assert lists(0).at(4, evenly=True).search_right is None


@pytest.mark.parametrize("length", [1, 9])
def test_lengths_that_are_not_there_are_refused(length):
    with pytest.raises(InvalidInput, match=rf"length: expected an integer from 2 to 8, got {length}"):
        SMALL.at(length)


def test_content_is_what_a_model_reads_and_not_how_texts_are_numbered():
    order = RANDOM.permutation(40)
    place = np.argsort(order)
    renumbered = [
        replace(part, positive=place[part.positive], negatives=place[part.negatives])
        for part in (TRAIN, VALIDATION)
    ]
    assert content(Rankings("made", PASSAGES.take(order), QUERIES, *renumbered)) == content(SMALL)
    others = (
        SMALL.at(4),
        replace(SMALL, train=replace(TRAIN, seed=1)),
        replace(SMALL, train=TRAIN.take(np.arange(50)[::-1])),
        replace(SMALL, passages=texts_of([[number, 2] for number in range(40)])),
        replace(SMALL, queries=texts_of([[number, 2] for number in range(100)])),
    )
    assert len({content(made) for made in (SMALL, *others)}) == 6


REFUSED = {
    "train and validation share query 40 (10 in all)": {"validation": lists(20, start=40, count=50)},
    "share passage 19 (1 in all)": {"validation": lists(19, start=50, count=50)},
    "share passage 4 ": {"passages": texts_of([[4 if number == 33 else number, 1] for number in range(40)])},
    "share query 5 ": {"queries": texts_of([[5 if number == 60 else number] for number in range(100)])},
    "a negative with the text of the positive for query 50": {
        "validation": replace(VALIDATION, negatives=VALIDATION.passages)
    },
    "train has no queries": {"train": lists(0, count=0)},
    "; expected 0 to 39": {"validation": lists(30, start=50, count=50)},
    "validation names query -40": {"validation": replace(VALIDATION, query=VALIDATION.query - 90)},
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_would_give_answers_away_or_names_nothing_is_refused(problem):
    with pytest.raises(InvalidInput) as refusal:
        replace(SMALL, **REFUSED[problem])
    assert problem in str(refusal.value)


@given(train=QUESTIONS, validation=QUESTIONS, seed=st.integers(0, 99))
def test_pools_share_nothing_and_hold_their_answers(train, validation, seed):
    kept, *pools = parted(train, validation, 40, np.random.default_rng(seed))
    ours, theirs = (set(pool.tolist()) for pool in pools)
    assert not ours & theirs
    assert ours | theirs == set(range(40))
    for questions, pool in ((kept, ours), (validation, theirs)):
        assert all(set(question.relevant.tolist()) <= pool for question in questions)
    asked = {question.query for question in validation}
    answers = {passage for question in validation for passage in question.relevant.tolist()}
    clean = [q for q in train if q.query not in asked and not answers & set(q.relevant.tolist())]
    assert kept == clean
    named = {p for q in (*clean, *validation) for p in (*q.relevant.tolist(), *q.listed.tolist())}
    if len(ours & named) <= 20 and len(theirs & named) <= 20:
        assert len(ours) == len(theirs)


@given(
    seed=st.integers(0, 10_000),
    queries=st.integers(20, 40),
    passages=st.integers(80, 140),
    run=st.sampled_from([None, "ranked", "trec", "texts"]),
    validation=st.sampled_from(["heldout", "dev"]),
    negatives=st.sampled_from(["bm25", "dense", "both"]),
)
@settings(max_examples=40)
def test_nothing_of_validation_is_in_training(seed, queries, passages, run, validation, negatives):
    tiny = Tiny(seed, queries=queries, passages=passages)
    with tempfile.TemporaryDirectory() as folder:
        tiny.write(Path(folder), run=run, parts=("train", "dev") if validation == "dev" else ("train",))
        options = Options(validation, 12, 4, length=3, negatives=negatives, seed=seed)
        rankings = load(folder, options)
    splits = (rankings.train, rankings.validation)
    asked, theirs = ({query_text(rankings, number) for number in lists.query} for lists in splits)
    assert not asked & theirs
    read, shown = ({passage_text(rankings, n) for n in lists.passages.flat} for lists in splits)
    assert not read & shown
