"""CIFAR-10 in every form it is published in: the same images from each."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_cifar10 import (
    LAYOUTS,
    TEST_IMAGES,
    TEST_LABELS,
    TRAIN_IMAGES,
    TRAIN_LABELS,
    assert_is_all_of_it,
    binary_batches,
    refusal,
    write_folder,
)

from headcount.data.cifar10.files import load_cifar10
from headcount.errors import InvalidInput


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_images(layout, tmp_path):
    before = LAYOUTS[layout](tmp_path)
    there = sorted(tmp_path.rglob("*"))
    assert_is_all_of_it(load_cifar10(before))
    assert sorted(tmp_path.rglob("*")) == there, "nothing is unpacked"


def test_the_hub_gives_the_same_images_unless_it_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    splits = {
        "train": {"img": list(TRAIN_IMAGES), "label": TRAIN_LABELS},
        "test": {"img": list(TEST_IMAGES), "label": TEST_LABELS},
    }
    hub = SimpleNamespace(load_dataset=lambda name, split: splits[split])
    monkeypatch.setitem(sys.modules, "datasets", hub)
    assert_is_all_of_it(load_cifar10("hub"))
    assert_is_all_of_it(load_cifar10(Path("hub")))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidInput, match=r"datasets: pip install 'headcount\[hub\]'"):
        load_cifar10("hub")
    write_folder(tmp_path / "hub", binary_batches())
    assert_is_all_of_it(load_cifar10(Path("hub")))


def unreachable(name, split):
    raise ConnectionError("no network\nat all")


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (unreachable, "hub: uoft-cs/cifar10: cannot be read: no network at all"),
        (lambda name, split: {"label": []}, "hub: uoft-cs/cifar10: cannot be read: 'img'"),
        (
            lambda name, split: {"img": [np.zeros((32, 32), np.uint8)], "label": [1]},
            "hub: uoft-cs/cifar10, train: images are uint8 of shape (1, 32, 32); expected",
        ),
    ],
)
def test_a_hub_that_fails_is_reported_in_one_line(give, words, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=give))
    assert words in refusal("hub")
