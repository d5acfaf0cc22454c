"""What of the real data a run reads, and how a user chooses it."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from data.msmarco.tiny_msmarco import Tiny, write_tables
from hypothesis import given
from hypothesis import strategies as st

from headcount.data.cifar10.files import Cifar10
from headcount.data.msmarco.embeddings import FrozenEmbeddings
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


def test_negatives_are_chosen_by_words_by_meaning_or_both_and_tables_may_lie_elsewhere(folder):
    chosen = [ITEM.at(folder, quick=True, negatives=way).data for way in ("bm25", "dense", "both")]
    assert len(set(chosen)) == 3 and chosen[0] == ITEM.at(folder, quick=True).data
    (folder / "tables").mkdir()
    for name in ("vocab.txt", "bert_embeddings.npz"):
        (folder / name).rename(folder / "tables" / name)
    assert ITEM.at(folder, quick=True, tables=folder / "tables").data == chosen[0]


def test_the_hub_gives_all_but_the_tables(folder, monkeypatch):
    tiny = write(folder, passages=600, parts=("train", "dev"))
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=tiny.load_dataset))
    assert ITEM.at("hub", quick=True, tables=folder).data == ITEM.at(folder, quick=True).data
    with pytest.raises(InvalidInput, match=r"hub: has no vocab.txt.*--tables FOLDER"):
        ITEM.at("hub", quick=True)


def test_lists_and_tables_decide_what_data_is_and_numbers_and_rounding_do_not(tmp_path, monkeypatch):
    write(tmp_path, passages=600, run="ranked")
    data, collection = ITEM.at(tmp_path, quick=True).data, tmp_path / "collection.tsv"
    collection.write_text("".join(sorted(collection.read_text().splitlines(keepends=True), reverse=True)))
    with monkeypatch.context() as another_machine:
        pooled = FrozenEmbeddings.pooled
        another_machine.setattr(FrozenEmbeddings, "pooled", lambda *given: pooled(*given) * (1 + 1e-6))
        assert ITEM.at(tmp_path, quick=True).data == data
    write_tables(tmp_path, positions=129)
    assert ITEM.at(tmp_path, quick=True).data != data


@pytest.mark.parametrize(
    ("item", "name", "value"),
    [("msmarco", "negatives", "hard"), ("cifar10", "negatives", "bm25"), ("table2", "tables", "there")],
)
def test_what_an_item_does_not_know_is_refused(item, name, value, called, capsys, tmp_path):
    write_tables(tmp_path)
    data = [] if item == "table2" else ["--data", tmp_path]
    assert called("reproduce", item, "--quick", *data, f"--{name}", value, "--out", tmp_path / "out") == 2
    printed = capsys.readouterr().err
    assert printed.startswith("headcount: error: ") and f"{name}: " in printed and repr(value) in printed
    assert not (tmp_path / "out").exists()


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
    images = random.integers(256, size=(90, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(90, dtype=np.int32) % 10
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
