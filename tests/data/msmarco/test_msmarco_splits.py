import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_msmarco import Tiny, passage_text, query_text

from headcount.data.msmarco.loading import load
from headcount.data.msmarco.pools import Question, parted
from headcount.data.msmarco.source import Options

PASSAGES = 40
NUMBERS = st.lists(st.integers(0, PASSAGES - 1), max_size=6).map(lambda found: np.array(found, np.int64))
QUESTIONS = st.lists(
    st.builds(Question, st.integers(0, 15), NUMBERS.filter(lambda found: len(found) > 0), NUMBERS),
    max_size=12,
)


@given(train=QUESTIONS, validation=QUESTIONS, seed=st.integers(0, 99))
def test_pools_share_nothing_and_hold_their_answers(train, validation, seed):
    parts = parted(train, validation, PASSAGES, np.random.default_rng(seed))
    ours, theirs = set(parts.train_pool.tolist()), set(parts.validation_pool.tolist())
    assert not ours & theirs
    assert ours | theirs == set(range(PASSAGES))
    for questions, pool in ((parts.train, ours), (validation, theirs)):
        assert all(set(question.relevant.tolist()) <= pool for question in questions)
    asked = {question.query for question in validation}
    answers = {passage for question in validation for passage in question.relevant.tolist()}
    clean = [q for q in train if q.query not in asked and not answers & set(q.relevant.tolist())]
    assert parts.train == clean
    named = {p for q in (*clean, *validation) for p in (*q.relevant.tolist(), *q.listed.tolist())}
    if len(ours & named) <= PASSAGES // 2 and len(theirs & named) <= PASSAGES // 2:
        assert len(ours) == len(theirs)


@given(
    seed=st.integers(0, 10_000),
    queries=st.integers(20, 40),
    passages=st.integers(80, 140),
    run=st.sampled_from([None, "ranked", "trec", "texts"]),
    validation=st.sampled_from(["heldout", "dev"]),
    negatives=st.sampled_from(["bm25", "dense", "both"]),
)
@settings(max_examples=40, deadline=None)
def test_nothing_of_validation_is_in_training(seed, queries, passages, run, validation, negatives):
    tiny = Tiny(seed, queries=queries, passages=passages)
    with tempfile.TemporaryDirectory() as folder:
        tiny.write(Path(folder), run=run, parts=("train", "dev") if validation == "dev" else ("train",))
        options = Options(validation, 12, 4, length=3, negatives=negatives, seed=seed)
        rankings = load(folder, options)
    seen = []
    for lists in (rankings.train, rankings.validation):
        asked = {query_text(rankings, number) for number in lists.query}
        read = {passage_text(rankings, number) for number in lists.candidates.reshape(-1)}
        seen.append((asked, read))
        for place in range(len(lists)):
            texts = [passage_text(rankings, number) for number in lists.passages[place]]
            assert texts[0] not in texts[1:]
    assert not seen[0][0] & seen[1][0]
    assert not seen[0][1] & seen[1][1]
