import sys
from types import SimpleNamespace

import pytest
from tiny_msmarco import Tiny, write_tables

from headcount.errors import InvalidInput
from headcount.tasks.msmarco import load
from headcount.tasks.msmarco_source import Options

TINY = Tiny(1)
OPTIONS = {"train_queries": 12, "validation_queries": 6, "length": 5}


def load_dataset(name, part, *, split, streaming=False):
    assert name == "mteb/msmarco"
    if part == "default":
        names = [query for place, query in enumerate(TINY.queries) if (place % 2 == 0) == (split == "train")]
        rows = [(query, passage) for query in names for passage in TINY.relevant[query]]
        return [{"query-id": query, "corpus-id": passage, "score": 1.0} for query, passage in rows]
    assert split == part
    assert streaming == (part == "corpus")
    texts = TINY.queries if part == "queries" else TINY.passages
    return [{"_id": name, "text": text} for name, text in texts.items()]


@pytest.mark.parametrize("validation", ["heldout", "dev"])
def test_the_hub_gives_what_the_files_give(tmp_path, monkeypatch, validation):
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    TINY.write(tmp_path, parts=("train", "dev"))
    options = Options(validation, tables=tmp_path, **OPTIONS)
    assert load("hub", options).fingerprint == load(tmp_path, options).fingerprint


def test_what_the_hub_lacks_is_said_in_one_line(tmp_path, monkeypatch):
    write_tables(tmp_path)
    with pytest.raises(InvalidInput, match=r"tables = None: with the hub"):
        load("hub")
    options = Options(tables=tmp_path, **OPTIONS)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidInput, match=r"datasets: pip install 'headcount\[hub\]'"):
        load("hub", options)

    def unreachable(*_, **__):
        raise ConnectionError("no way there\nat all")

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=unreachable))
    with pytest.raises(
        InvalidInput, match=r"hub mteb/msmarco, queries: cannot be fetched \(no way there\); .*https"
    ):
        load("hub", options)


def test_judgements_of_unknown_queries_are_refused(tmp_path, monkeypatch):
    write_tables(tmp_path)

    def without_queries(name, part, **options):
        return [] if part == "queries" else load_dataset(name, part, **options)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=without_queries))
    with pytest.raises(InvalidInput, match="mteb/msmarco, train: query q0 has judgements but no text"):
        load("hub", Options(tables=tmp_path))
