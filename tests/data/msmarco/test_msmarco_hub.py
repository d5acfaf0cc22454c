import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_msmarco import Tiny, content, write_tables

from headcount.data.msmarco.loading import load
from headcount.data.msmarco.source import Options
from headcount.errors import InvalidInput

TINY = Tiny(1)
OPTIONS = {"train_queries": 12, "validation_queries": 6, "length": 5}


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
