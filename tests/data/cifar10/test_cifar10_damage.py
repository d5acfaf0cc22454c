"""Files of CIFAR-10 that are damaged, missing, repeated or of other data: each is named."""

import errno
import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tiny_cifar10 import (
    BINARY,
    RANDOM,
    batches,
    binary_batch,
    binary_folder,
    images,
    python_archive,
    refusal,
    write_archive,
    write_folder,
)

from headcount.data.cifar10 import batches as batches_module
from headcount.data.cifar10.files import load_cifar10


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has 0 bytes; expected one or more records of 3073 bytes"),
        (bytes(3073 * 2 - 1), "has 6145 bytes; expected one or more records of 3073 bytes"),
        (bytes(3073) + b"\n" + bytes(3072), "image 1 has the label 10; expected 0 to 9"),
    ],
)
def test_a_binary_file_that_is_no_batch_is_named(content, words, tmp_path):
    folder = binary_folder(tmp_path)
    (folder / "data_batch_4.bin").write_bytes(content)
    line = refusal(folder)
    assert line.startswith(f"{folder / 'data_batch_4.bin'}: ")
    assert words in line


def test_a_missing_batch_is_named(tmp_path):
    path = binary_folder(tmp_path) / "test_batch.bin"
    path.unlink()
    assert refusal(tmp_path).startswith(f"{path}: is missing; expected data_batch_1")
    path.mkdir()
    assert f"{path}: cannot be read: " in refusal(tmp_path)


def test_a_batch_truncated_between_two_records_is_named(tmp_path):
    path = binary_folder(tmp_path) / "data_batch_1.bin"
    path.write_bytes(path.read_bytes()[: 2 * 3073])
    assert refusal(tmp_path).startswith(f"{path}: holds 2 images; expected 3, like the other batches")


def test_a_test_batch_may_have_its_own_size_unless_the_others_are_whole(tmp_path, monkeypatch):
    path = binary_folder(tmp_path) / "test_batch.bin"
    path.write_bytes(path.read_bytes()[: 2 * 3073])
    assert len(load_cifar10(tmp_path).test_labels) == 2
    monkeypatch.setattr(batches_module, "PUBLISHED_SIZE", 3)
    assert refusal(tmp_path).startswith(f"{path}: holds 2 images; expected 3, like the other batches")


@pytest.mark.parametrize(("repeated", "is_refused"), [(2, False), (3, True)])
def test_a_tenth_of_the_test_images_may_be_known(repeated, is_refused, tmp_path):
    pixels = RANDOM.integers(256, size=(6, 20, 3072), dtype=np.uint8)
    pixels[5, :repeated] = pixels[0, 20 - repeated :]
    contents = zip(BINARY, (binary_batch(batch, [1] * 20) for batch in pixels), strict=True)
    folder = write_folder(tmp_path / "cifar-10-batches-bin", dict(contents))
    if is_refused:
        assert f"{folder / 'test_batch.bin'}: {repeated} of its 20 images" in refusal(folder)
    else:
        np.testing.assert_array_equal(load_cifar10(folder).test_images, images(pixels[5]))


@pytest.mark.parametrize("make", [binary_folder, python_archive])
def test_a_file_that_cannot_be_read_is_named(make, tmp_path, monkeypatch):
    make(tmp_path)
    path = sorted(path for path in tmp_path.rglob("*") if path.is_file())[0]

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
        lambda content: b"",
        lambda content: b"<html>404</html>",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-8] + bytes([content[-8] ^ 1]) + content[-7:],
        lambda content: gzip.compress(b"text, in no archive"),
        lambda content: gzip.compress(gzip.decompress(content)[:9000]),
    ],
)
def test_a_damaged_archive_is_named(damage, tmp_path):
    path = python_archive(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(tmp_path).startswith(f"{path}: is damaged or not a .tar.gz or .tar: ")


def test_members_count_by_their_exact_names_alone(tmp_path):
    path = write_archive(tmp_path / "a.tar.gz", {f"../cifar-10-batches-bin/{BINARY[0]}": b"1"})
    assert f"{path}: holds ['batches.meta', '../" in refusal(path)


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in batches(BINARY, binary_batch).items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            if name == "data_batch_5.bin":
                (tmp_path / "secret").write_bytes(content)
                member.size, member.type, member.linkname = 0, tarfile.SYMTYPE, str(tmp_path / "secret")
            archive.addfile(member, io.BytesIO(content))
    assert f"{path}/cifar-10-batches-bin/data_batch_5.bin: is missing" in refusal(path)
