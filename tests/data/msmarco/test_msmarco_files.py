"""The official files of MS MARCO in every layout, and the hub: lists whose negatives answer nothing."""

import codecs
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_msmarco import Tiny, content, passage_text, query_text, write_tables

from headcount.data.msmarco import source
from headcount.data.msmarco.loading import load
from headcount.data.msmarco.rankings import Rankings
from headcount.data.msmarco.source import Options
from headcount.errors import InvalidInput

OPTIONS = {"train_queries": 12, "validation_queries": 6, "length": 5, "pool": 60}
TINY = Tiny(1)


def made(folder: Path, **changes) -> Rankings:
    return load(folder, Options(**(OPTIONS | changes)))


def asked(rankings: Rankings, numbers: np.ndarray) -> list[str]:
    """The names of queries whose first word is their number."""
    return [f"q{query_text(rankings, number).split()[0][1:]}" for number in numbers]


def distinct(seed: int, **sizes: int) -> Tiny:
    """No two queries with the same text: the first word of each is its number."""
    tiny = Tiny(seed, **sizes)
    tiny.queries = {name: f"w{place} w{29 - place}" for place, name in enumerate(tiny.queries)}
    return tiny


@pytest.mark.parametrize(
    ("run", "packed"), [(None, False), ("ranked", True), ("trec", False), ("texts", True)]
)
def test_every_layout_gives_a_positive_and_hard_negatives_that_answer_nothing(tmp_path, run, packed):
    tiny = distinct(1)
    tiny.write(tmp_path, run=run, packed=packed)
    rankings = made(tmp_path)
    assert len(rankings.train) > 6
    assert len(rankings.validation) > 3
    hits = []
    for lists in (rankings.train, rankings.validation):
        for name, candidates, label in zip(
            asked(rankings, lists.query), lists.candidates, lists.label, strict=True
        ):
            texts = [passage_text(rankings, passage) for passage in candidates]
            answers = [tiny.passages[passage] for passage in tiny.relevant[name]]
            assert len(set(texts)) == 5
            assert texts[label] == answers[0]
            assert not {*answers} & {*texts[:label], *texts[label + 1 :]}
        for name, negatives in zip(asked(rankings, lists.query), lists.negatives, strict=True):
            texts = [passage_text(rankings, passage) for passage in negatives]
            listed = [tiny.passages[passage] for passage in tiny.run[name]]
            assert run is None or {*texts} <= {*listed}
            if run in ("ranked", "trec"):
                ranks = [listed.index(text) for text in texts]
                assert ranks == sorted(ranks)
                assert ranks[-1] < 10
            hits.append([len({*tiny.queries[name].split()} & {*text.split()}) for text in texts])
    if run in (None, "texts"):  # ranked by BM25
        first, last = np.mean(hits, axis=0)[[0, -1]]
        assert first > last


@pytest.mark.parametrize(("run", "suffix"), [(None, "dev.small"), ("ranked", "dev"), ("ranked", "heldout")])
def test_validation_queries_may_come_in_files_of_their_own(tmp_path, run, suffix):
    distinct(5, queries=30).write(tmp_path, run=run, parts=("train", suffix))
    rankings = made(tmp_path, validation=suffix.removesuffix(".small"))
    for lists, part in ((rankings.train, 0), (rankings.validation, 1)):
        assert {int(name[1:]) % 2 for name in asked(rankings, lists.query)} == {part}


def test_queries_are_drawn_only_where_there_are_more_and_a_held_out_file_is_used_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "VALIDATION_QUERIES", 1)
    distinct(5, queries=30, passages=400).write(tmp_path, run="ranked", parts=("train", "heldout"))
    rankings = made(tmp_path, train_queries=28_000, validation_queries=None)
    assert len(rankings.validation) > 2
    for lists in (rankings.train, rankings.validation):
        order = [int(name[1:]) for name in asked(rankings, lists.query)]
        assert order == sorted(order)


def test_a_seed_decides_everything(tmp_path):
    Tiny(6).write(tmp_path)
    found = [content(made(tmp_path, seed=seed, pool=30)) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]


def test_what_is_repeated_blank_or_graded_below_1_line_ends_and_byte_order_marks_change_nothing(tmp_path):
    Tiny(9).write(tmp_path, run="ranked")
    expected = content(made(tmp_path))
    files = {name: tmp_path / f"{name}.train.tsv" for name in ("queries", "qrels", "run")}
    files["collection"] = tmp_path / "collection.tsv"
    added = {name: path.read_text().partition("\n")[0] + "\n" for name, path in files.items()}
    added["queries"] += "q99\t \n"
    added["qrels"] += "q5 0 p44 -1\nq6 0 p45 00\nq99 0 p1 1\n"
    for name, path in files.items():
        text = (path.read_text() + added[name]).replace("\n", "\r\n")
        path.write_bytes(codecs.BOM_UTF8 + text.encode())
    assert content(made(tmp_path)) == expected


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


@pytest.mark.parametrize("validation", ["heldout", "dev"])
def test_the_hub_gives_what_the_files_give(tmp_path, monkeypatch, validation):
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=TINY.load_dataset))
    TINY.write(tmp_path, parts=("train", "dev"))
    options = Options(validation, tables=tmp_path, **OPTIONS)
    expected = content(load(tmp_path, options))
    monkeypatch.chdir(tmp_path)
    assert content(load("hub", options)) == content(load(Path("hub"), options)) == expected


def test_a_folder_called_hub_is_a_folder(tmp_path, monkeypatch):
    (tmp_path / "hub").mkdir()
    TINY.write(tmp_path / "hub")
    monkeypatch.chdir(tmp_path)
    assert load(Path("hub"), Options(**OPTIONS)).name == "hub/collection.tsv"


def test_the_hub_needs_tables_and_its_package(tmp_path, monkeypatch):
    write_tables(tmp_path)
    with pytest.raises(InvalidInput, match=r"hub: has no vocab.txt.*tables=FOLDER.*docs/real.md.*https"):
        load("hub")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidInput, match=r"datasets: pip install 'headcount\[hub\]'"):
        load("hub", Options(tables=tmp_path, **OPTIONS))


def failing(error):
    def load_dataset(*_, **__):
        raise error

    return load_dataset


def only(**rows):
    """A hub that gives these rows, and the tiny data set's where there are none."""
    return lambda name, part, **options: rows.get(part) or TINY.load_dataset(name, part, **options)


@pytest.mark.parametrize(
    ("give", "problem"),
    [
        (failing(ConnectionError("no network\nat all")), r"queries: cannot be fetched \(no network\)"),
        (failing(RuntimeError()), r"queries: cannot be fetched \(RuntimeError\)"),
        (only(queries=[{"id": 1}]), r"queries: cannot be fetched \('_id'\).*the columns _id, text"),
        (only(queries=[{"_id": 1, "text": None}]), r"queries: 1 has the text None"),
        (only(default=[{"query-id": 1, "corpus-id": 1, "score": "a"}]), r"train: query 1 has the score 'a'"),
        (only(queries=[{"_id": 1, "text": "w1"}]), r"train: query q0 has judgements but no text"),
    ],
)
def test_whatever_the_hub_gives_is_refused_in_one_line(tmp_path, monkeypatch, give, problem):
    write_tables(tmp_path)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=give))
    with pytest.raises(InvalidInput, match=rf"hub mteb/msmarco, {problem}.*https://") as refusal:
        load("hub", Options(tables=tmp_path, **OPTIONS))
    assert "\n" not in str(refusal.value)
