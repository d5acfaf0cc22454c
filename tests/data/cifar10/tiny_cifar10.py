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
SIZE = 3
PYTHON = [f"data_batch_{number}" for number in range(1, 6)] + ["test_batch"]
BINARY = [f"{name}.bin" for name in PYTHON]
PIXELS = [RANDOM.integers(256, size=(size, 3072), dtype=np.uint8) for size in 6 * (SIZE,)]
LABELS = [RANDOM.integers(10, size=len(pixels)).tolist() for pixels in PIXELS]


def images(pixels):
    """Pixel by pixel, as its home page describes it: 1,024 red values, then green, then blue, row by row."""
    made = np.empty((len(pixels), 32, 32, 3), np.uint8)
    for image, row, column, colour in np.ndindex(made.shape):
        made[image, row, column, colour] = pixels[image, 1024 * colour + 32 * row + column]
    return made


TRAIN_IMAGES, TEST_IMAGES = images(np.concatenate(PIXELS[:5])), images(PIXELS[5])
TRAIN_LABELS, TEST_LABELS = [label for labels in LABELS[:5] for label in labels], LABELS[5]


def python3_batch(pixels, labels, protocol=2):
    batch = {b"batch_label": b"a batch", b"labels": labels, b"data": pixels, b"filenames": [b"a.png"]}
    return pickle.dumps(batch, protocol=protocol)


def numpy1_batch(pixels, labels):
    return python3_batch(pixels, labels).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


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


def batches(names, write):
    return {name: write(pixels, labels) for name, pixels, labels in zip(names, PIXELS, LABELS, strict=True)}


def write_folder(folder, contents):
    folder.mkdir(parents=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return folder


def write_archive(path, contents):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {"batches.meta": b"other", **contents}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def python_folder(tmp_path, write=python3_batch):
    return write_folder(tmp_path / "cifar-10-batches-py", batches(PYTHON, write))


def binary_folder(tmp_path):
    return write_folder(tmp_path / "cifar-10-batches-bin", batches(BINARY, binary_batch))


def python_archive(tmp_path, name="cifar-10-python.tar.gz", start=""):
    contents = batches(PYTHON, python2_batch)
    named = {f"{start}cifar-10-batches-py/{key}": contents[key] for key in contents}
    return write_archive(tmp_path / name, named)


def binary_archive(tmp_path, name="cifar-10-binary.tar.gz"):
    contents = batches(BINARY, binary_batch)
    return write_archive(tmp_path / name, {f"cifar-10-batches-bin/{key}": contents[key] for key in contents})


def unpacked(path):
    plain = path.with_suffix("")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    path.unlink()
    return plain


LAYOUTS = {
    "python 3": python_folder,
    "numpy 1, by columns": lambda path: python_folder(
        path, lambda pixels, labels: numpy1_batch(np.asfortranarray(pixels), labels)
    ),
    "python 2": lambda path: python_folder(path, python2_batch),
    "protocol 4": lambda path: python_folder(path, lambda *batch: python3_batch(*batch, protocol=4)).parent,
    "binary": lambda path: str(binary_folder(path).parent),
    "archive by another name": lambda path: binary_archive(path, "mine.tgz"),
    "archive of the folder's content": lambda path: python_archive(path, start="./"),
    "folder of an archive": lambda path: binary_archive(path).parent,
    "folder of an archive that is not gzipped": lambda path: unpacked(python_archive(path)).parent,
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
