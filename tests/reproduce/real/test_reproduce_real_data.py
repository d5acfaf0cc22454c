"""What of the real data a run reads, and how a user chooses it."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from data.msmarco.tiny_msmarco import Tiny, write_tables
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from headcount.commands.cli import app
from headcount.data.cifar10.files import Cifar10
from headcount.errors import InvalidInput
from headcount.reproduce.item import REAL_ITEMS
from headcount.reproduce.real import cifar10
from headcount.reproduce.real.images import balanced
from headcount.reproduce.recipe import QUICK

ITEM = REAL_ITEMS["msmarco"]


def write(folder, *, passages, **options):
    tiny = Tiny(0, queries=80, passages=passages)
    tiny.write(folder, **options)
    write_tables(folder, positions=128)
    return tiny


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, passages=600)
    return tmp_path


def test_a_quick_run_is_content_with_short_lists(folder):
    quick = ITEM.at(folder, quick=True)
    assert {trial.length for trials in quick.named(QUICK).values() for trial in trials} == {8, 16}
    write(folder, passages=90)
    assert ITEM.at(folder, quick=True).data != quick.data
    with pytest.raises(InvalidInput, match="63 negatives in a pool of"):
        ITEM.at(folder)


def test_negatives_are_chosen_by_words_by_meaning_or_both(folder):
    chosen = [ITEM.at(folder, quick=True, negatives=way).data for way in ("bm25", "dense", "both")]
    assert len(set(chosen)) == 3 and chosen[0] == ITEM.at(folder, quick=True).data


def test_tables_may_lie_elsewhere(folder, tmp_path_factory):
    beside = ITEM.at(folder, quick=True)
    elsewhere = tmp_path_factory.mktemp("tables")
    for name in ("vocab.txt", "bert_embeddings.npz"):
        (folder / name).rename(elsewhere / name)
    assert ITEM.at(folder, quick=True, tables=elsewhere).data == beside.data


def test_the_hub_gives_all_but_the_tables(folder, monkeypatch):
    tiny = write(folder, passages=600, parts=("train", "dev"))
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=tiny.load_dataset))
    assert ITEM.at("hub", quick=True, tables=folder).data == ITEM.at(folder, quick=True).data
    with pytest.raises(InvalidInput, match=r"hub: has no vocab.txt.*--tables FOLDER"):
        ITEM.at("hub", quick=True)


@pytest.mark.parametrize(
    ("item", "options"),
    [
        ("msmarco", ["--negatives", "hard"]),
        ("cifar10", ["--negatives", "bm25"]),
        ("table2", ["--tables", "there"]),
    ],
)
def test_what_an_item_does_not_know_is_refused(item, options, tmp_path):
    write_tables(tmp_path)
    out = tmp_path / "out"
    data = [] if item == "table2" else ["--data", str(tmp_path)]
    done = CliRunner().invoke(app, ["reproduce", item, "--quick", *data, *options, "--out", str(out)])
    name, value = options[0].removeprefix("--"), repr(options[1])
    assert isinstance(done.exception, InvalidInput)
    assert str(done.exception).startswith(name) and value in str(done.exception)
    assert not out.exists()


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 60))
def test_as_many_of_each_class_are_taken_and_the_first(labels, count):
    labels, places = np.array(labels), np.arange(len(labels))
    chosen, theirs = balanced(places, labels, count)
    assert len(chosen) == min(count, len(labels)) and (np.diff(chosen) > 0).all()
    taken, there = (np.bincount(each, minlength=4) for each in (theirs, labels))
    short = taken < taken.max() - 1
    np.testing.assert_array_equal(taken[short], there[short])
    for label in range(4):
        first = places[labels == label][: taken[label]]
        np.testing.assert_array_equal(chosen[theirs == label], first)
    again = balanced(*balanced(places, labels, count), count)
    np.testing.assert_array_equal(again[0], chosen)


def test_images_that_are_not_used_change_nothing(monkeypatch):
    """Of a part of the data set and of all of it, the same are learnt."""
    random = np.random.default_rng(0)
    images, labels = (
        random.integers(256, size=(90, 32, 32, 3), dtype=np.uint8),
        np.arange(90, dtype=np.int32) % 10,
    )
    made = {
        "part": Cifar10(images[:40], labels[:40], images[:20], labels[:20]),
        "all": Cifar10(images, labels, images, labels),
    }
    monkeypatch.setattr(cifar10, "load_cifar10", made.get)
    monkeypatch.setattr(cifar10, "IMAGES", 40)
    monkeypatch.setattr(cifar10, "CHECKED", 20)
    assert cifar10.load("part") == cifar10.load("all")
    monkeypatch.setattr(cifar10, "CHECKED", 21)
    assert cifar10.load("part") != cifar10.load("all")
