"""CIFAR-10, tiny, in every form it is published in."""

import gzip
import io
import pickle
import tarfile

import numpy as np
import pytest

from headcount.data.cifar10.batches import HOME
from headcount.data.cifar10.files import Cifar10, load_cifar10
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(0)
NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
PIXELS = RANDOM.integers(256, size=(6, 3, 3072), dtype=np.uint8)
LABELS = RANDOM.integers(10, size=(6, 3)).tolist()


def images(pixels):
    """Pixel by pixel, as its home page describes it: 1,024 red values, then green, then blue, row by row."""
    made = np.empty((len(pixels), 32, 32, 3), np.uint8)
    for image, row, column, colour in np.ndindex(made.shape):
        made[image, row, column, colour] = pixels[image, 1024 * colour + 32 * row + column]
    return made


TRAIN_IMAGES, TEST_IMAGES = images(np.concatenate(PIXELS[:5])), images(PIXELS[5])
TRAIN_LABELS, TEST_LABELS = [label for labels in LABELS[:5] for label in labels], LABELS[5]


def python3_batch(pixels, labels):
    batch = {b"batch_label": b"a batch", b"labels": labels, b"data": pixels, b"filenames": [b"a.png"]}
    return pickle.dumps(batch, protocol=2)


def numpy1_batch(pixels, labels):
    content = python3_batch(np.asfortranarray(pixels), labels)
    return content.replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def python2_batch(pixels, labels):
    """The opcodes as Python 2 wrote them: text is bytes, and bools are numbers."""

    def text(content):
        return b"T" + len(content).to_bytes(4, "little") + content

    kind = (
        b"cnumpy\ndtype\n" + text(b"u1") + b"K\0K\1\x87R(K\3" + text(b"|") + b"NNN" + 2 * b"J\xff\xff\xff\xff"
    )
    shape = b"".join(b"M" + size.to_bytes(2, "little") for size in pixels.shape) + b"\x86"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85" + text(b"b") + b"\x87R"
    array = empty + b"(K\1" + shape + kind + b"K\0tb\x89" + text(pixels.tobytes()) + b"tb"
    listed = b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e"
    return b"\x80\2}(" + text(b"labels") + listed + text(b"data") + array + b"u."


def binary_batch(pixels, labels):
    return np.concatenate([np.array(labels, np.uint8)[:, None], pixels], axis=1).tobytes()


def binary_batches(pixels=PIXELS, labels=LABELS):
    written = map(binary_batch, pixels, labels)
    return {f"cifar-10-batches-bin/{name}.bin": batch for name, batch in zip(NAMES, written, strict=True)}


def python_batches(write=python3_batch):
    written = map(write, PIXELS, LABELS)
    return {f"cifar-10-batches-py/{name}": batch for name, batch in zip(NAMES, written, strict=True)}


def write_folder(path, contents):
    """Files in a folder of `path`, which is returned."""
    for name, content in contents.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return (path / name).parent


def write_archive(path, contents, links=()):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {"batches.meta": b"other", **contents}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name in links:
                member.size, member.type, member.linkname = 0, tarfile.SYMTYPE, "data_batch_1.bin"
            archive.addfile(member, io.BytesIO(content))
    return path


def plain_archive(path, contents):
    packed = write_archive(path.with_suffix(".gz"), contents)
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    return path


PYTHON_ARCHIVE = "cifar-10-python.tar.gz"
LAYOUTS = {
    "python 3": lambda path: write_folder(path, python_batches()),
    "numpy 1, by columns": lambda path: write_folder(path, python_batches(numpy1_batch)),
    "python 2": lambda path: write_folder(path, python_batches(python2_batch)).parent,
    "binary": lambda path: str(write_folder(path, binary_batches())),
    "archive by another name": lambda path: write_archive(path / "mine.tgz", binary_batches()),
    "folder of an archive": lambda path: (
        write_archive(path / "cifar-10-binary.tar.gz", binary_batches()).parent
    ),
    "archive of the folder's content": lambda path: write_archive(
        path / PYTHON_ARCHIVE, {f"./{name}": batch for name, batch in python_batches(python2_batch).items()}
    ),
    "folder of an archive that is not gzipped": lambda path: (
        plain_archive(path / "cifar-10-python.tar", python_batches()).parent
    ),
}


def assert_is_all_of_it(data: Cifar10) -> None:
    np.testing.assert_array_equal(data.train_images, TRAIN_IMAGES)
    np.testing.assert_array_equal(data.train_labels, TRAIN_LABELS)
    np.testing.assert_array_equal(data.test_images, TEST_IMAGES)
    np.testing.assert_array_equal(data.test_labels, TEST_LABELS)
    assert data.train_images.dtype == data.test_images.dtype == np.uint8
    assert data.train_labels.dtype == data.test_labels.dtype == np.int32


def refusal(path) -> str:
    """The one line, which says where to get the data."""
    with pytest.raises(InvalidInput) as caught:
        load_cifar10(path)
    line = str(caught.value)
    assert "\n" not in line
    assert HOME in line
    return line
