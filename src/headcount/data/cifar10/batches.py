"""Batches of CIFAR-10: bytes in, checked images and labels out; nothing that a pickle names is run."""

import hashlib
import io
import pickle
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8

from headcount.errors import InvalidInput
from headcount.validation import is_integer, shown

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32  # of an image in a file: the red, the green and the blue plane, row by row
PUBLISHED_SIZE = 10_000  # images in each published batch
MAX_REPEATED = 0.1  # of the images of a batch; a few are alike in any large collection


class Records(NamedTuple):
    """Images [row, column, colour] and, for each, the index of its class in `CLASSES`."""

    images: UInt8[np.ndarray, "image 32 32 3"]
    labels: Int32[np.ndarray, " image"]


def refused(file: object, problem: str) -> InvalidInput:
    """One line: which file, what is wrong with it, and where to get the data."""
    return InvalidInput(f"{file}: {problem}; CIFAR-10 is at {HOME}")


@contextmanager
def reading(file: object, problem: str) -> Iterator[None]:
    """Damaged files raise many exception types; report them all as one problem, with a reason."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise refused(file, f"{problem}: {reason}") from None


def binary(file: Path, content: bytes) -> Records:
    """Records of one byte for the label and 3,072 for the pixels."""
    size = 1 + PIXELS
    if not content or len(content) % size:
        raise refused(file, f"has {len(content)} bytes; expected one or more records of {size} bytes")
    rows = np.frombuffer(content, np.uint8).reshape(-1, size)
    return records(file, _colours_last(rows[:, 1:]), rows[:, 0].tolist())


def pickled(file: Path, content: bytes) -> Records:
    """A dictionary of b'data', an array [image, 3072], and b'labels', a list."""
    with reading(file, "is damaged or not a pickled batch"):
        batch = _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        found = shown(list(batch)) if isinstance(batch, dict) else type(batch).__name__
        raise refused(file, f"holds {found}; expected a dictionary with b'data' and b'labels'")
    data, labels = batch[b"data"], batch[b"labels"]
    shape = data.array.shape if isinstance(data, _PickledArray) else None
    if shape is None or shape[1:] != (PIXELS,):
        raise refused(file, f"b'data' has the shape {shape}; expected an array of shape (n, {PIXELS})")
    if not isinstance(labels, list):
        raise refused(file, f"b'labels' is {shown(labels)}; expected a list")
    return records(file, _colours_last(data.array), labels)


def records(file: object, images: np.ndarray, labels: Sequence[Any]) -> Records:
    """Images and labels, checked against each other."""
    if images.shape[1:] != (32, 32, 3) or images.dtype != np.uint8 or not len(images):
        found = f"images are {images.dtype} of shape {images.shape}"
        raise refused(file, f"{found}; expected uint8 of shape (n, 32, 32, 3), n >= 1")
    if len(labels) != len(images):
        raise refused(file, f"holds {len(images)} images and {len(labels)} labels; expected one label each")
    for place, label in enumerate(labels):
        if not is_integer(label) or not 0 <= label < len(CLASSES):
            raise refused(file, f"image {place} has the label {shown(label)}; expected 0 to 9")
    return Records(np.ascontiguousarray(images), np.asarray(labels, np.int32))


def check_one_size(batches: Mapping[Any, Records]) -> None:
    """Refuse a batch of another size: a file truncated between two records looks complete.

    The last batch, the test images, may have a size of its own where the data is not the published whole.
    """
    sizes = {file: len(batch.labels) for file, batch in batches.items()}
    compared = list(sizes) if PUBLISHED_SIZE in sizes.values() else list(sizes)[:-1]
    usual = statistics.mode(sizes[file] for file in compared)
    for file in compared:
        if sizes[file] != usual:
            raise refused(file, f"holds {sizes[file]} images; expected {usual}, like the other batches")


def check_unrepeated(batches: Mapping[Any, Records]) -> None:
    """Refuse a batch that mostly repeats earlier images: a copy would be learnt and then tested on."""
    seen: set[bytes] = set()
    for file, batch in batches.items():
        before = len(seen)
        seen.update(hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in batch.images)
        count = len(batch.images)
        repeated = count - (len(seen) - before)
        if repeated > MAX_REPEATED * count:
            found = f"{repeated} of its {count} images occur twice, in it or in an earlier batch"
            raise refused(file, f"{found}; expected each once")


def _colours_last(pixels: UInt8[np.ndarray, "image 3072"]) -> UInt8[np.ndarray, "image 32 32 3"]:
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


class _PickledArray:
    """An array under construction: NumPy pickles an empty one first, then its content."""

    def __init__(self, *_: Any) -> None:
        self.array: np.ndarray = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _PickledUint8):
            raise pickle.UnpicklingError("an array without a type; expected uint8")
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _PickledUint8:
    """The type of an array. For a single byte the rest of its state (byte order, fields) is ignored."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {shown(code)}; expected 'u1', uint8")

    def __setstate__(self, state: Any) -> None:
        pass


class _BatchUnpickler(pickle.Unpickler):
    """Refuses any name outside `_STAND_INS` before it is used.

    Even the names that an array needs are replaced: NumPy's own accept every type, objects included, and
    `encode` every codec. Each stand-in can do one thing only.
    """

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it names {shown(name)} of {shown(module)}; nothing was run")
        return _STAND_INS[module, name]


class _StandIn:
    """A function that a pickle can call but not modify: that opcode ends in `__setstate__`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it modifies a function; nothing was run")


def _latin1(text: str, encoding: str) -> bytes:
    """Python 3 writes bytes as text under protocol 2, which has no bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in {shown(encoding)}; expected 'latin1'")
    return str.encode(text, "latin1")


def _never(*_: Any) -> None:
    raise pickle.UnpicklingError("it constructs an array directly; nothing was run")


_STAND_INS: Mapping[tuple[str, str], _StandIn] = {
    ("_codecs", "encode"): _StandIn(_latin1),
    ("numpy", "dtype"): _StandIn(_PickledUint8),
    ("numpy", "ndarray"): _StandIn(_never),
    ("numpy.core.multiarray", "_reconstruct"): _StandIn(_PickledArray),
    ("numpy._core.multiarray", "_reconstruct"): _StandIn(_PickledArray),
}
