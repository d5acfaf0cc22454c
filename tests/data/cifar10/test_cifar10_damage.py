"""Files of CIFAR-10 that are damaged, missing, repeated or another's: each is named."""

import errno
import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tiny_cifar10 import (
    BINARY,
    LABELS,
    PIXELS,
    PYTHON,
    RANDOM,
    batches,
    binary_archive,
    binary_batch,
    binary_folder,
    images,
    parts,
    python3_batch,
    python_archive,
    python_folder,
    refusal,
    write_archive,
    write_folder,
    write_part,
)

from headcount.data.cifar10.files import load_cifar10


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has 0 bytes; expected one or more records of 3073 bytes"),
        (bytes(3073 * 2 - 1), "has 6145 bytes; expected one or more records of 3073 bytes"),
        (bytes(3074 * 4), "has 12296 bytes"),
        (bytes(3073) + b"\n" + bytes(3072), "image 1 has the label 10; expected 0 to 9"),
    ],
)
def test_a_binary_file_that_is_no_batch_is_named(content, words, tmp_path):
    folder = binary_folder(tmp_path)
    (folder / "data_batch_4.bin").write_bytes(content)
    line = refusal(folder)
    assert line.startswith(f"{folder / 'data_batch_4.bin'}: ")
    assert words in line


@pytest.mark.parametrize(
    ("make", "name"), [(python_folder, "data_batch_2"), (binary_folder, "test_batch.bin")]
)
def test_a_missing_batch_is_named(make, name, tmp_path):
    folder = make(tmp_path)
    (folder / name).unlink()
    line = refusal(folder)
    assert line.startswith(f"{folder / name}: is missing; expected data_batch_1")
    (folder / name).mkdir()
    assert f"{folder / name}: cannot be read: " in refusal(folder)


@pytest.mark.parametrize("name", ["data_batch_1", "data_batch_4", "test_batch"])
def test_a_batch_cut_between_two_records_is_named(name, tmp_path):
    folder = binary_folder(tmp_path)
    path = folder / f"{name}.bin"
    path.write_bytes(path.read_bytes()[: 2 * 3073])
    assert refusal(tmp_path).startswith(f"{path}: holds 2 images; expected 3, as the other batches")


@pytest.mark.parametrize(
    ("one", "copy"), [("data_batch_1", "test_batch"), ("data_batch_5", "test_batch"), (*PYTHON[1:3],)]
)
@pytest.mark.parametrize("with_labels", [True, False])
def test_a_batch_that_is_a_copy_is_refused(one, copy, with_labels, tmp_path):
    folder = binary_folder(tmp_path)
    place = PYTHON.index(one if with_labels else copy)
    (folder / f"{copy}.bin").write_bytes(binary_batch(PIXELS[PYTHON.index(one)], LABELS[place]))
    line = refusal(folder)
    assert line.startswith(f"{folder / copy}.bin: 3 of its 3 images are there twice")


@pytest.mark.parametrize(("repeated", "is_refused"), [(0, False), (2, False), (3, True), (20, True)])
def test_a_tenth_of_the_test_images_may_be_known(repeated, is_refused, tmp_path):
    pixels = RANDOM.integers(256, size=(6, 20, 3072), dtype=np.uint8)
    pixels[5, :repeated] = pixels[0, 20 - repeated :]
    contents = zip(BINARY, (binary_batch(batch, [1] * 20) for batch in pixels), strict=True)
    folder = write_folder(tmp_path / "cifar-10-batches-bin", dict(contents))
    if is_refused:
        assert f"{folder / 'test_batch.bin'}: {repeated} of its 20 images" in refusal(folder)
    else:
        np.testing.assert_array_equal(load_cifar10(folder).test_images, images(pixels[5]))


def test_parts_that_test_what_they_train_are_refused(tmp_path):
    path = write_part(tmp_path / "cifar10_part0.npz", [0, 1], [0, 1])
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(path, **(arrays | {"r_test": arrays["r_train"]}))
    assert f"{tmp_path}, test: 2 of its 2 images are there twice" in refusal(tmp_path)


@pytest.mark.parametrize("make", [binary_folder, python_archive, parts])
def test_a_file_that_cannot_be_read_is_named(make, tmp_path, monkeypatch):
    make(tmp_path)
    path = sorted(path for path in tmp_path.rglob("*") if path.is_file())[0]

    def broken(self):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Path, "read_bytes", broken)
    assert refusal(tmp_path).startswith(f"{path}: cannot be read: Input/output error")


def test_a_place_without_the_data_is_named(tmp_path):
    assert f"{tmp_path / 'nowhere'}: there is no such folder or archive" in refusal(tmp_path / "nowhere")
    line = refusal(tmp_path)
    assert f"{tmp_path}: holds no CIFAR-10; expected cifar-10-batches-py/data_batch_1" in line
    assert "cifar-10-binary.tar.gz or cifar10_part0.npz" in line


@pytest.mark.parametrize("make", [python_archive, binary_archive])
@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"<html>404</html>",
        lambda content: content[:1000],
        lambda content: content[: len(content) // 2],
        lambda content: content[:-4],
        lambda content: content[:-8] + bytes([content[-8] ^ 1]) + content[-7:],
        lambda content: content[:5000] + bytes(200) + content[5200:],
        lambda content: gzip.compress(b"text, in no archive"),
        lambda content: gzip.compress(gzip.decompress(content)[:9000]),
        lambda content: gzip.compress(gzip.decompress(content).replace(b"ustar", b"rat's", 3)),
    ],
)
def test_a_damaged_archive_is_named(make, damage, tmp_path):
    path = make(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert refusal(tmp_path).startswith(f"{path}: is damaged, or no .tar.gz or .tar: ")


def test_another_archive_is_refused_with_what_it_holds(tmp_path):
    path = write_archive(tmp_path / "cifar-10-python.tar.gz", {"cifar-100-python/train": b"1"})
    line = refusal(path)
    assert f"{path}: holds ['batches.meta', 'cifar-100-python/train']; expected cifar-10-batches-py" in line


@pytest.mark.parametrize("start", ["/", "../", "cifar-10-batches-bin/"])
def test_members_count_by_their_exact_names_alone(start, tmp_path):
    contents = {f"{start}cifar-10-batches-bin/{name}": b"1" for name in BINARY}
    assert "expected cifar-10-batches-py/data_batch_1 or" in refusal(
        write_archive(tmp_path / "a.tar.gz", contents)
    )


def test_a_link_in_an_archive_is_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(binary_batch(PIXELS[0], LABELS[0]))
    contents = {
        f"cifar-10-batches-bin/{name}": content for name, content in batches(BINARY, binary_batch).items()
    }
    path = tmp_path / "cifar-10-binary.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name.endswith("data_batch_5.bin"):
                member.size, member.type, member.linkname = 0, tarfile.SYMTYPE, str(secret)
            archive.addfile(member, io.BytesIO(content))
    assert f"{path}/cifar-10-batches-bin/data_batch_5.bin: is missing" in refusal(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"r_train": None}, "is damaged, or no .npz with r_train, y_train, i_train"),
        ({"r_train": np.zeros((3, 2, 32, 31), np.uint8)}, "have the shapes [(3, 2, 32, 31), (2,), (2,)]"),
        (
            {"r_train": np.zeros((3, 2, 32, 32), np.int32)},
            "the pixels are int32; expected uint8 (3, n, 32, 32)",
        ),
        ({"y_test": np.zeros(3, np.uint8)}, "expected uint8 (3, n, 32, 32), (n,) and (n,)"),
        ({"y_test": np.array([3, 11], np.uint8)}, "image 1 has the label 11; expected 0 to 9"),
        ({"y_train": np.array([0.5, 1])}, "image 0 has the label 0.5; expected 0 to 9"),
        ({"i_train": np.array([[0], [1]])}, "(n,) and (n,)"),
        ({"i_train": np.array([print, None])}, "is damaged, or no .npz"),
    ],
)
def test_a_part_that_is_none_is_named(changes, words, tmp_path):
    path = write_part(tmp_path / "cifar10_part0.npz", [0, 1], [0, 1])
    with np.load(path) as archive:
        arrays = {**archive, **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    line = refusal(tmp_path)
    assert line.startswith(f"{path}: ")
    assert words in line


@pytest.mark.parametrize("content", [b"", b"<html>404</html>", python3_batch(PIXELS[1], LABELS[1])])
def test_a_part_that_is_no_npz_is_named(content, tmp_path):
    (tmp_path / "cifar10_part1.npz").write_bytes(content)
    assert f"{tmp_path / 'cifar10_part1.npz'}: is damaged, or no .npz with" in refusal(tmp_path)


def test_a_truncated_part_is_named(tmp_path):
    path = write_part(tmp_path / "cifar10_part0.npz", [0, 1], [0, 1])
    path.write_bytes(path.read_bytes()[:-100])
    assert f"{path}: is damaged, or no .npz with" in refusal(tmp_path)


def test_a_part_that_is_there_twice_is_refused(tmp_path):
    for number in range(2):
        write_part(tmp_path / f"cifar10_part{number}.npz", [0, 1], [0, 1])
    assert "images are there twice in cifar10_part0.npz, cifar10_part1.npz" in refusal(tmp_path)
