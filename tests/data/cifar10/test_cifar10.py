"""CIFAR-10 in every form it is published in, and files that are damaged, hostile or of other data."""

import errno
import gzip
import os
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_cifar10 as tiny
from tiny_cifar10 import LABELS, PIXELS, binary_batches, python3_batch, python_batches, refusal, write_folder

from headcount.data.cifar10 import batches as batches_module
from headcount.data.cifar10.files import load_cifar10
from headcount.errors import InvalidInput


@pytest.mark.parametrize("layout", tiny.LAYOUTS)
def test_every_layout_gives_the_same_images(layout, tmp_path):
    before = tiny.LAYOUTS[layout](tmp_path)
    there = sorted(tmp_path.rglob("*"))
    tiny.assert_is_all_of_it(load_cifar10(before))
    assert sorted(tmp_path.rglob("*")) == there, "nothing is unpacked"


def test_the_hub_gives_the_same_images_unless_it_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    splits = {
        "train": {"img": list(tiny.TRAIN_IMAGES), "label": tiny.TRAIN_LABELS},
        "test": {"img": list(tiny.TEST_IMAGES), "label": tiny.TEST_LABELS},
    }
    hub = SimpleNamespace(load_dataset=lambda name, split: splits[split])
    monkeypatch.setitem(sys.modules, "datasets", hub)
    tiny.assert_is_all_of_it(load_cifar10("hub"))
    tiny.assert_is_all_of_it(load_cifar10(Path("hub")))
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidInput, match=r"datasets: pip install 'headcount\[hub\]'"):
        load_cifar10("hub")
    write_folder(tmp_path / "hub", binary_batches())
    tiny.assert_is_all_of_it(load_cifar10(Path("hub")))


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


@pytest.fixture
def binary(tmp_path):
    return write_folder(tmp_path, binary_batches())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has 0 bytes; expected one or more records of 3073 bytes"),
        (bytes(3073 * 2 - 1), "has 6145 bytes; expected one or more records of 3073 bytes"),
        (bytes(3073) + b"\n" + bytes(3072), "image 1 has the label 10; expected 0 to 9"),
        (bytes(3073 * 2), "holds 2 images; expected 3, like the other batches"),
    ],
)
def test_a_binary_file_that_is_no_batch_is_named(content, words, binary):
    (binary / "data_batch_4.bin").write_bytes(content)
    assert refusal(binary).startswith(f"{binary / 'data_batch_4.bin'}: {words}")


def test_a_missing_batch_is_named(binary):
    path = binary / "test_batch.bin"
    path.unlink()
    assert refusal(binary).startswith(f"{path}: is missing; expected data_batch_1")
    path.mkdir()
    assert f"{path}: cannot be read: " in refusal(binary)


def test_a_test_batch_may_have_its_own_size_unless_the_others_are_whole(binary, monkeypatch):
    path = binary / "test_batch.bin"
    path.write_bytes(path.read_bytes()[: 2 * 3073])
    assert len(load_cifar10(binary).test_labels) == 2
    monkeypatch.setattr(batches_module, "PUBLISHED_SIZE", 3)
    assert refusal(binary).startswith(f"{path}: holds 2 images; expected 3, like the other batches")


@pytest.mark.parametrize(("repeated", "is_refused"), [(2, False), (3, True)])
def test_a_tenth_of_the_test_images_may_be_known(repeated, is_refused, tmp_path):
    pixels = tiny.RANDOM.integers(256, size=(6, 20, 3072), dtype=np.uint8)
    pixels[5, :repeated] = pixels[0, 20 - repeated :]
    folder = write_folder(tmp_path, binary_batches(pixels, 6 * [20 * [1]]))
    if is_refused:
        assert f"{folder / 'test_batch.bin'}: {repeated} of its 20 images" in refusal(folder)
    else:
        np.testing.assert_array_equal(load_cifar10(folder).test_images, tiny.images(pixels[5]))


@pytest.mark.parametrize("archive", [False, True])
def test_a_file_that_cannot_be_read_is_named(archive, tmp_path, monkeypatch):
    contents = binary_batches()
    path = tmp_path / (tiny.PYTHON_ARCHIVE if archive else next(iter(contents)))
    tiny.write_archive(path, contents) if archive else write_folder(tmp_path, contents)

    def broken(self):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", broken)
    assert refusal(tmp_path).startswith(f"{path}: cannot be read: Input/output error")


def test_a_place_without_the_data_is_named(tmp_path):
    assert f"{tmp_path / 'nowhere'}: no such folder or archive" in refusal(tmp_path / "nowhere")
    line = refusal(tmp_path)
    assert f"{tmp_path}: holds no CIFAR-10; expected cifar-10-batches-py/data_batch_1" in line
    assert "or cifar-10-binary.tar.gz; CIFAR-10 is at" in line


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"<html>404</html>",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-8] + bytes([content[-8] ^ 1]) + content[-7:],
        lambda content: gzip.compress(gzip.decompress(content)[:9000]),
    ],
)
def test_a_damaged_archive_is_named(damage, tmp_path):
    path = tiny.write_archive(tmp_path / tiny.PYTHON_ARCHIVE, python_batches())
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(tmp_path).startswith(f"{path}: is damaged or not a .tar.gz or .tar: ")


def test_members_count_by_their_exact_names_and_links_are_not_followed(tmp_path):
    path = tiny.write_archive(tmp_path / "a.tgz", {"../cifar-10-batches-bin/data_batch_1.bin": b"1"})
    assert f"{path}: holds ['batches.meta', '../" in refusal(path)
    name = "cifar-10-batches-bin/data_batch_5.bin"
    tiny.write_archive(path, binary_batches(), links=[name])
    assert f"{path}/{name}: is missing" in refusal(path)


class Command:
    def __init__(self, line):
        self.line = line

    def __reduce__(self):
        return os.system, (self.line,)


def test_a_pickle_with_a_command_is_refused_and_the_command_is_not_run(tmp_path):
    folder, written = write_folder(tmp_path, python_batches()), tmp_path / "written"
    batch = {b"data": PIXELS[2], b"labels": LABELS[2], b"more": Command(f'echo run > "{written}"')}
    content = pickle.dumps(batch, protocol=2)
    pickle.loads(content)
    assert written.exists(), "the command works if it is run"
    written.unlink()
    (folder / "data_batch_3").write_bytes(content)
    line = refusal(folder)
    assert not written.exists()
    assert line.startswith(f"{folder / 'data_batch_3'}: ")
    assert f"it names 'system' of '{os.system.__module__}'; nothing was run" in line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"cnumpy\nload\n.", "it names 'load' of 'numpy'"),
        (b"cnumpy\nndarray\n(K\1tR.", "it constructs an array directly"),
        (b"\x80\2cnumpy\nndarray\n)\x81.", "NEWOBJ"),
        (b"c_codecs\nencode\n(X\1\0\0\0aX\5\0\0\0rot13tR.", "text in 'rot13'; expected 'latin1'"),
        (pickle.dumps(np.array([print], object), 2), "an array of type 'O8'; expected 'u1'"),
        (b"cnumpy\ndtype\nN}S'__call__'\nNs\x86b.", "it modifies a function"),
        (python3_batch(PIXELS[1], LABELS[1])[:-1], "is damaged or not a pickled batch"),
        (pickle.dumps([1], 2), "holds list; expected a dictionary with b'data' and b'labels'"),
        (pickle.dumps({b"data": 1, b"fine_labels": []}, 2), "holds [b'data', b'fine_labels']; expected"),
        (python3_batch([1], [1]), "b'data' has the shape None; expected an array of shape (n, 3072)"),
        (python3_batch(PIXELS[0][:, :3000], LABELS[0]), "b'data' has the shape (3, 3000); expected"),
        (python3_batch(PIXELS[0], tuple(LABELS[0])), "b'labels' is ("),
        (python3_batch(PIXELS[0], LABELS[0][:2]), "holds 3 images and 2 labels; expected one label each"),
        (python3_batch(PIXELS[0], [0, 0, 1.5]), "image 2 has the label 1.5; expected 0 to 9"),
    ],
)
def test_a_pickle_that_is_no_batch_is_named_and_its_arrays_cannot_do_anything_else(content, words, tmp_path):
    path = write_folder(tmp_path, python_batches()) / "test_batch"
    path.write_bytes(content)
    line = refusal(tmp_path)
    assert line.startswith(f"{path}: ")
    assert words in line
