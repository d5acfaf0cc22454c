from dataclasses import replace

import numpy as np
import pytest

from headcount.data.msmarco.rankings import Lists, Rankings
from headcount.data.msmarco.texts import texts_of
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(11)
LISTS = 4_000
PASSAGES = texts_of([[number, 1] for number in range(40)])
QUERIES = texts_of([[number] for number in range(2 * LISTS)])


def lists(first: int, *, start: int = 0, count: int = LISTS, seed: int = 0) -> Lists:
    drawn = np.argsort(RANDOM.random((count, 20)), axis=1)[:, :8] + first
    return Lists(np.arange(start, start + count), drawn[:, 0], drawn[:, 1:], seed)


def rankings(**changes: object) -> Rankings:
    parts = {"train": lists(0), "validation": lists(20, start=LISTS, count=50)}
    return Rankings("made", PASSAGES, QUERIES, **(parts | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [2, 5, 8])
def test_fewer_candidates_are_the_positive_and_the_hardest(length):
    whole = lists(0)
    part = whole.at(length)
    assert part.length == part.candidates.shape[1] == length
    np.testing.assert_array_equal(part.candidates[np.arange(LISTS), part.label], whole.positive)
    np.testing.assert_array_equal(
        np.sort(part.candidates),
        np.sort(np.concatenate([whole.positive[:, None], whole.negatives[:, : length - 1]], axis=1)),
    )


@pytest.mark.parametrize("length", [4, 8])
def test_the_place_of_the_positive_and_of_the_hard_ones_says_nothing(length):
    part = lists(0).at(length)
    hardest = (part.candidates == part.negatives[:, :1]).argmax(axis=1)
    for places in (part.label, hardest):
        counts = np.bincount(places, minlength=length)
        np.testing.assert_allclose(counts, LISTS / length, atol=5 * np.sqrt(LISTS / length))
    after = (hardest > part.label).mean()
    assert abs(after - 0.5) < 5 * 0.5 / np.sqrt(LISTS)


@pytest.mark.parametrize("length", [1, 9])
def test_lengths_that_are_not_there_are_refused(length):
    with pytest.raises(InvalidInput, match=rf"length: expected an integer from 2 to 8, got {length}"):
        rankings().at(length)


def test_the_fingerprint_is_of_what_a_model_reads():
    made = rankings()
    reseeded = replace(made, train=replace(made.train, seed=1))
    other_text = replace(made, passages=texts_of([[number, 2] for number in range(40)]))
    prints = [each.fingerprint for each in (made, made.at(8), made.at(4), reseeded, other_text)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


def test_what_would_leak_is_refused():
    negatives = lists(20, start=LISTS, count=50)
    positive_again = negatives.negatives.copy()
    positive_again[7, 3] = negatives.positive[7]
    for changes, problem in (
        ({"validation": lists(20, start=LISTS - 1, count=50)}, "share query 3999 (1 in all)"),
        ({"validation": lists(19, start=LISTS, count=50)}, "share passage 19 (1 in all)"),
        ({"validation": replace(negatives, negatives=positive_again)}, "for query 4007"),
        ({"train": lists(0, count=0)}, "train has no queries"),
        ({"validation": lists(30, start=LISTS, count=50)}, "validation names passage 49; expected 0 to 39"),
        ({"validation": replace(negatives, query=negatives.query - 9000)}, "validation names query -5000"),
    ):
        with pytest.raises(InvalidInput) as refusal:
            rankings(**changes)
        assert problem in str(refusal.value)


def test_the_same_words_under_another_number_are_the_same_text():
    small = {"train": lists(0, count=50), "validation": lists(20, start=50, count=50)}
    passages = texts_of([[number if number != 33 else 4, 1] for number in range(40)])
    with pytest.raises(InvalidInput, match="share passage 4 "):
        Rankings("made", passages, QUERIES, **small)
    queries = texts_of([[number if number != 60 else 5] for number in range(100)])
    with pytest.raises(InvalidInput, match="share query 5 "):
        Rankings("made", PASSAGES, queries, **small)
