"""The official files of MS MARCO in every layout: lists whose negatives answer nothing."""

import codecs
from pathlib import Path

import numpy as np
import pytest
from tiny_msmarco import Tiny, passage_text, query_text

from headcount.data.msmarco import source
from headcount.data.msmarco.loading import load
from headcount.data.msmarco.rankings import Rankings
from headcount.data.msmarco.source import Options

OPTIONS = {"train_queries": 12, "validation_queries": 6, "length": 5, "pool": 60}


def made(folder: Path, **changes) -> Rankings:
    return load(folder, Options(**(OPTIONS | changes)))


def names(tiny: Tiny, text: str) -> list[str]:
    """The queries with this text: most often one."""
    return [name for name, asked in tiny.queries.items() if asked == text]


@pytest.mark.parametrize(
    ("run", "packed"), [(None, False), ("ranked", True), ("trec", False), ("texts", True)]
)
def test_every_layout_gives_a_positive_and_negatives_that_answer_nothing(tmp_path, run, packed):
    tiny = Tiny(1)
    tiny.write(tmp_path, run=run, packed=packed)
    rankings = made(tmp_path)
    assert rankings.train.length == 5
    assert len(rankings.train) > 6
    assert len(rankings.validation) > 3
    for lists in (rankings.train, rankings.validation):
        for place, label in enumerate(lists.label):
            asked = names(tiny, query_text(rankings, lists.query[place]))
            texts = [passage_text(rankings, passage) for passage in lists.candidates[place]]
            assert len(set(texts)) == 5
            assert texts[label] in {tiny.passages[tiny.relevant[name][0]] for name in asked}
            drawn_twice = len(asked) > 1 and (lists.query == lists.query[place]).sum() == len(asked)
            for name in asked if drawn_twice or len(asked) == 1 else []:
                answers = {tiny.passages[passage] for passage in tiny.relevant[name]}
                assert not answers & set(texts) - {texts[label]}


@pytest.mark.parametrize("run", ["ranked", "trec"])
def test_a_run_decides_which_negatives_are_hard(tmp_path, run):
    tiny = Tiny(2)
    tiny.write(tmp_path, run=run)
    rankings = made(tmp_path)
    for lists in (rankings.train, rankings.validation):
        for place, number in enumerate(lists.query):
            asked = names(tiny, query_text(rankings, number))
            if len(asked) > 1:
                continue
            ranked = [tiny.passages[passage] for passage in tiny.run[asked[0]]]
            ranks = [ranked.index(passage_text(rankings, passage)) for passage in lists.negatives[place]]
            assert ranks == sorted(ranks)
            assert ranks[-1] < 10


def test_a_run_without_ranks_is_ranked_by_bm25(tmp_path):
    tiny = Tiny(3)
    tiny.write(tmp_path, run="texts")
    rankings = made(tmp_path)
    hits = []
    for place, number in enumerate(rankings.train.query):
        asked = query_text(rankings, number)
        listed = {tiny.passages[passage] for name in names(tiny, asked) for passage in tiny.run[name]}
        texts = [passage_text(rankings, passage) for passage in rankings.train.negatives[place]]
        assert set(texts) <= listed
        hits.append([len({*asked.split()} & {*text.split()}) for text in texts])
    first, last = np.mean(hits, axis=0)[[0, -1]]
    assert first > last


@pytest.mark.parametrize(("run", "suffix"), [(None, "dev.small"), ("ranked", "dev"), ("ranked", "heldout")])
def test_validation_queries_may_come_in_files_of_their_own(tmp_path, run, suffix):
    tiny = Tiny(5, queries=30)
    tiny.write(tmp_path, run=run, parts=("train", suffix))
    rankings = made(tmp_path, validation=suffix.removesuffix(".small"))
    for lists, part in ((rankings.train, 0), (rankings.validation, 1)):
        for number in lists.query:
            places = {int(name[1:]) % 2 for name in names(tiny, query_text(rankings, number))}
            assert part in places


def test_queries_are_drawn_only_where_there_are_more_and_a_held_out_file_is_used_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "VALIDATION_QUERIES", 1)
    tiny = Tiny(5, queries=30, passages=400)
    tiny.queries = {name: f"w{place} w{29 - place}" for place, name in enumerate(tiny.queries)}
    tiny.write(tmp_path, run="ranked", parts=("train", "heldout"))
    rankings = made(tmp_path, train_queries=None, validation_queries=None)
    assert len(rankings.validation) > 2
    for lists, part in ((rankings.train, 0), (rankings.validation, 1)):
        order = [int(query_text(rankings, number).split()[0][1:]) for number in lists.query]
        assert {place % 2 for place in order} == {part}
        assert order == sorted(order)


def test_a_seed_decides_everything(tmp_path):
    Tiny(6).write(tmp_path)
    prints = [made(tmp_path, seed=seed, pool=30).fingerprint for seed in (0, 0, 1)]
    assert prints[0] == prints[1] != prints[2]


def test_tables_may_lie_elsewhere(tmp_path):
    Tiny(8).write(tmp_path)
    expected = made(tmp_path).fingerprint
    tables = tmp_path / "tables"
    tables.mkdir()
    (tmp_path / "vocab.txt").rename(tables / "vocab.txt")
    assert made(tmp_path, tables=tables).fingerprint == expected


def test_grades_below_1_line_ends_of_windows_and_byte_order_marks_change_nothing(tmp_path):
    Tiny(9).write(tmp_path, run="ranked")
    expected = made(tmp_path).fingerprint
    path = tmp_path / "qrels.train.tsv"
    path.write_text(path.read_text() + "q5 0 p44 -1\nq6 0 p45 00\n")
    for name in ("collection.tsv", "queries.train.tsv", "qrels.train.tsv", "run.train.tsv"):
        content = (tmp_path / name).read_bytes().replace(b"\n", b"\r\n")
        (tmp_path / name).write_bytes(codecs.BOM_UTF8 + content)
    assert made(tmp_path).fingerprint == expected


def test_what_is_repeated_counts_once_and_a_blank_query_not_at_all(tmp_path):
    tiny = Tiny(11)
    tiny.write(tmp_path)
    expected = made(tmp_path, pool=0).fingerprint
    for name in ("collection.tsv", "queries.train.tsv"):
        path = tmp_path / name
        path.write_text(path.read_text() + path.read_text().partition("\n")[0] + "\n")
    for name, line in (("queries.train.tsv", "q99\t \n"), ("qrels.train.tsv", "q99 0 p1 1\n")):
        (tmp_path / name).write_text((tmp_path / name).read_text() + line)
    assert made(tmp_path, pool=0).fingerprint == expected


def test_what_answers_a_query_is_no_negative_of_the_same_words_under_another_name(tmp_path):
    tiny = Tiny(10, queries=4, passages=40)
    for name in tiny.queries:
        tiny.queries[name] = "w1 w2 w3" if name in ("q0", "q1", "q2") else "w4 w5"
    tiny.relevant |= {"q0": ["p3", "p5"], "q1": ["p6"], "q2": ["p7"], "q3": ["p8"]}
    tiny.write(tmp_path)
    answers = {tiny.passages[passage] for passage in ("p3", "p5", "p6", "p7")}
    checked = 0
    for seed in range(12):
        rankings = made(tmp_path, train_queries=3, validation_queries=1, seed=seed)
        if query_text(rankings, rankings.validation.query[0]) == "w4 w5":
            assert len(rankings.train) == 3
            found = {passage_text(rankings, passage) for passage in rankings.train.negatives.reshape(-1)}
            assert not answers & found
            checked += 1
    assert checked
