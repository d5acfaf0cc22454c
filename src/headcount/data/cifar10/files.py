"""CIFAR-10 from the files it is handed out in. Nothing in them is run, and nothing is unpacked to disk."""

import gzip
import hashlib
import importlib
import io
import pickle
import statistics
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int32, UInt8

from headcount.errors import InvalidInput
from headcount.validation import is_integer, shown

HOME = "https://www.cs.toronto.edu/~kriz/cifar.html"
HUB = "uoft-cs/cifar10"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
PIXELS = 3 * 32 * 32  # of an image in a file: the red, the green and the blue plane, row by row
PARTS = ("cifar10_part0.npz", "cifar10_part1.npz", "cifar10_part2.npz")
GZIP = b"\x1f\x8b"  # how a .gz begins
MAX_REPEATED = 0.1  # of the images of a batch; a few are alike in any large collection


@dataclass(frozen=True, eq=False)
class Cifar10:
    """Images [row, column, colour] and, for each, the place of its class in `CLASSES`."""

    train_images: UInt8[np.ndarray, "train 32 32 3"]
    train_labels: Int32[np.ndarray, " train"]
    test_images: UInt8[np.ndarray, "test 32 32 3"]
    test_labels: Int32[np.ndarray, " test"]


class _Records(NamedTuple):
    images: UInt8[np.ndarray, "image 32 32 3"]
    labels: Int32[np.ndarray, " image"]


def load_cifar10(folder: Path | str) -> Cifar10:
    """The data set in a folder, in an archive, or, by the word "hub", on the Hugging Face hub.

    A folder may hold (or be) `cifar-10-batches-py` or `cifar-10-batches-bin`, hold one of the archives
    `cifar-10-python.tar.gz` and `cifar-10-binary.tar.gz` (or the .tar in them), or the parts
    `cifar10_part0.npz` to `cifar10_part2.npz`. The first of these is read; of the parts, those that are
    there. `Path("hub")` is a folder where there is one of that name.
    """
    path = Path(folder)
    if folder == "hub" or (path == Path("hub") and not path.exists()):
        return _from_hub()
    try:
        return _from_archive(path) if path.is_file() else _from_folder(path)
    except OSError as error:
        raise _refused(error.filename or path, f"cannot be read: {error.strerror or error}") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _refused(path, f"cannot be read: {error.strerror or error}") from None


def _refused(file: object, problem: str) -> InvalidInput:
    return InvalidInput(f"{file}: {problem}; CIFAR-10 is at {HOME}")


@contextmanager
def _reading(file: object, problem: str) -> Iterator[None]:
    """Bytes from anywhere can break a reader in any way; to a person it is one problem, with a reason."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split())[:200].rstrip(".") or type(error).__name__
        raise _refused(file, f"{problem}: {reason}") from None


def _from_folder(folder: Path) -> Cifar10:
    if not folder.is_dir():
        raise _refused(folder, "there is no such folder or archive")
    for layout in LAYOUTS:
        for place in (folder / layout.folder, folder):
            there = [name for name in layout.files if (place / name).exists()]
            if there:
                return layout.joined(place, {name: _bytes(place / name) for name in there})
    for layout in LAYOUTS:
        for archive in (folder / layout.archive, folder / layout.archive.removesuffix(".gz")):
            if archive.is_file():
                return _from_archive(archive)
    parts = [folder / name for name in PARTS if (folder / name).is_file()]
    if parts:
        train, test = _from_parts(parts, "train"), _from_parts(parts, "test")
        _check_unrepeated({f"{folder}, train": train, f"{folder}, test": test})
        return _both(train, test)
    known = [name for layout in LAYOUTS for name in (f"{layout.folder}/{layout.files[0]}", layout.archive)]
    raise _refused(folder, f"holds no CIFAR-10; expected {', '.join(known)} or {PARTS[0]}")


def _from_archive(path: Path) -> Cifar10:
    """One pass through a .tar.gz, to its very end, where the checksum is; or through a .tar."""
    wanted = {f"{layout.folder}/{name}" for layout in LAYOUTS for name in layout.files}
    found: dict[str, bytes] = {}
    others: list[str] = []
    content = _bytes(path)
    file = io.BytesIO(content)
    with (
        _reading(path, "is damaged, or no .tar.gz or .tar"),
        gzip.open(file) if content.startswith(GZIP) else file as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for member in archive:
            name = member.name.removeprefix("./")
            batch = archive.extractfile(member) if name in wanted and member.isreg() else None
            if batch:
                found[name] = batch.read()
            else:
                others.append(member.name)
        while stream.read(1 << 20):
            pass
    for layout in LAYOUTS:
        there = [name for name in layout.files if f"{layout.folder}/{name}" in found]
        if there:
            contents = {name: found[f"{layout.folder}/{name}"] for name in there}
            return layout.joined(path / layout.folder, contents)
    expected = " or ".join(f"{layout.folder}/{layout.files[0]}" for layout in LAYOUTS)
    raise _refused(path, f"holds {shown(others)}; expected {expected} and so on")


def _from_parts(paths: Sequence[Path], split: str) -> _Records:
    """The parts of one split together, each image in its own place of the original order."""
    parts = [_part(path, _bytes(path), split) for path in paths]
    order = np.concatenate([places for _, places in parts])
    if len(np.unique(order)) < len(order):
        names = ", ".join(path.name for path in paths)
        raise _refused(paths[0].parent, f"images are there twice in {names}; expected each once")
    together = _joined([records for records, _ in parts])
    rank = np.argsort(order)
    return _Records(together.images[rank], together.labels[rank])


def _part(file: Path, content: bytes, split: str) -> tuple[_Records, np.ndarray]:
    """Records and their places: r holds R - G, G, B - G as differences along rows and columns, modulo 256."""
    names = [f"{kind}_{split}" for kind in "ryi"]
    with (
        _reading(file, f"is damaged, or no .npz with {', '.join(names)}"),
        np.load(io.BytesIO(content), allow_pickle=False) as archive,
    ):
        stored, labels, places = (np.asarray(archive[name]) for name in names)
    count = len(labels) if labels.ndim else 0
    shapes = [array.shape for array in (stored, labels, places)]
    if stored.dtype != np.uint8 or shapes != [(3, count, 32, 32), (count,), (count,)]:
        found = f"{', '.join(names)} have the shapes {shown(shapes)} and the pixels are {stored.dtype}"
        raise _refused(file, f"{found}; expected uint8 (3, n, 32, 32), (n,) and (n,)")
    planes = np.cumsum(np.cumsum(stored, axis=2, dtype=np.uint8), axis=3, dtype=np.uint8)
    planes[0] += planes[1]
    planes[2] += planes[1]
    return _records(file, np.moveaxis(planes, 0, -1), labels.tolist()), places


def _from_hub() -> Cifar10:
    try:
        hub = importlib.import_module("datasets")
    except ImportError:
        raise _refused("hub", "needs the package datasets: pip install 'headcount[hub]'") from None
    splits = {}
    for split in ("train", "test"):
        with _reading(f"hub: {HUB}", "cannot be read"):
            data = hub.load_dataset(HUB, split=split)
            images = np.stack([np.asarray(image) for image in data["img"]])
            labels = list(data["label"])
        where = f"hub: {HUB}, {split}"
        splits[where] = _records(where, images, labels)
    _check_unrepeated(splits)
    return _both(*splits.values())


def _binary(file: Path, content: bytes) -> _Records:
    """Records of one byte for the label and 3,072 for the pixels."""
    size = 1 + PIXELS
    if not content or len(content) % size:
        found = f"has {len(content)} bytes"
        raise _refused(file, f"{found}; expected one or more records of {size} bytes, and no rest")
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    return _records(file, _colours_last(records[:, 1:]), records[:, 0].tolist())


def _pickled(file: Path, content: bytes) -> _Records:
    """A dictionary of b'data', an array [image, 3072], and b'labels', a list."""
    with _reading(file, "is damaged, or no pickled batch"):
        batch = _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()
    if not isinstance(batch, dict) or not {b"data", b"labels"} <= batch.keys():
        found = shown(list(batch)) if isinstance(batch, dict) else type(batch).__name__
        raise _refused(file, f"holds {found}; expected a dictionary with b'data' and b'labels'")
    data, labels = batch[b"data"], batch[b"labels"]
    shape = data.array.shape if isinstance(data, _PickledArray) else None
    if shape is None or shape[1:] != (PIXELS,):
        raise _refused(file, f"b'data' has the shape {shape}; expected an array of shape (n, {PIXELS})")
    if not isinstance(labels, list):
        raise _refused(file, f"b'labels' is {shown(labels)}; expected a list")
    return _records(file, _colours_last(data.array), labels)


def _colours_last(pixels: UInt8[np.ndarray, "image 3072"]) -> UInt8[np.ndarray, "image 32 32 3"]:
    return pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _records(file: object, images: np.ndarray, labels: Sequence[Any]) -> _Records:
    if images.shape[1:] != (32, 32, 3) or images.dtype != np.uint8 or not len(images):
        found = f"images are {images.dtype} of shape {images.shape}"
        raise _refused(file, f"{found}; expected uint8 of shape (n, 32, 32, 3), one image or more")
    if len(labels) != len(images):
        raise _refused(file, f"holds {len(images)} images and {len(labels)} labels; expected as many")
    for place, label in enumerate(labels):
        if not is_integer(label) or not 0 <= label < len(CLASSES):
            raise _refused(file, f"image {place} has the label {shown(label)}; expected 0 to 9")
    return _Records(np.ascontiguousarray(images), np.asarray(labels, np.int32))


def _check_one_size(batches: Mapping[Any, _Records]) -> None:
    """A file that is cut between two records is a whole file of fewer."""
    usual = statistics.mode(len(batch.labels) for batch in batches.values())
    for file, batch in batches.items():
        if len(batch.labels) != usual:
            raise _refused(file, f"holds {len(batch.labels)} images; expected {usual}, as the other batches")


def _check_unrepeated(batches: Mapping[Any, _Records]) -> None:
    """Refuses a batch many of whose images were there before: a copy would be learnt and then tested on."""
    seen: set[bytes] = set()
    for file, batch in batches.items():
        before = len(seen)
        seen.update(hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in batch.images)
        count = len(batch.images)
        repeated = count - (len(seen) - before)
        if repeated > MAX_REPEATED * count:
            found = f"{repeated} of its {count} images are there twice, in it or in an earlier batch"
            raise _refused(file, f"{found}; expected each once")


def _joined(batches: Sequence[_Records]) -> _Records:
    images, labels = zip(*batches, strict=True)
    return _Records(np.concatenate(images), np.concatenate(labels))


def _both(train: _Records, test: _Records) -> Cifar10:
    return Cifar10(train.images, train.labels, test.images, test.labels)


class _BatchUnpickler(pickle.Unpickler):
    """Reads numbers, text, lists, dictionaries and uint8 arrays; any other name is refused before it is used.

    Even the names that an array needs are never given out: NumPy's own take every type, objects among
    them, and `encode` every codec. The pickle gets stand-ins that can do this one thing.
    """

    def find_class(self, module: str, name: str) -> Any:
        """What a name means here."""
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it names {shown(name)} of {shown(module)}; nothing of it was run")
        return STAND_INS[module, name]


class _StandIn:
    """A function that a pickle can call; the opcode that would change it ends in `__setstate__`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it changes a function; nothing of it was run")


class _PickledArray:
    """An array under construction: NumPy pickles an empty one first, then what it holds."""

    def __init__(self, *_: Any) -> None:
        self.array: np.ndarray = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _PickledUint8):
            raise pickle.UnpicklingError("an array without a type; expected uint8")
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _PickledUint8:
    """The type of an array. Of a single byte there is no more to tell: what else is said is let go."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {shown(code)}; expected 'u1', uint8")

    def __setstate__(self, state: Any) -> None:
        pass


def _latin1(text: str, encoding: str) -> bytes:
    """Python 3 writes bytes as text, for protocol 2 has only that."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in {shown(encoding)}; expected 'latin1'")
    return str.encode(text, "latin1")


def _never(*_: Any) -> None:
    raise pickle.UnpicklingError("it makes an array in a way of its own; nothing of it was run")


STAND_INS: Mapping[tuple[str, str], _StandIn] = {
    ("_codecs", "encode"): _StandIn(_latin1),
    ("numpy", "dtype"): _StandIn(_PickledUint8),
    ("numpy", "ndarray"): _StandIn(_never),
    ("numpy.core.multiarray", "_reconstruct"): _StandIn(_PickledArray),
    ("numpy._core.multiarray", "_reconstruct"): _StandIn(_PickledArray),
}


@dataclass(frozen=True)
class _Layout:
    """A folder as it is handed out: five batches to train on, one to test, and how to read one."""

    folder: str
    archive: str
    ending: str
    records: Callable[[Path, bytes], _Records]

    @property
    def files(self) -> tuple[str, ...]:
        names = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
        return tuple(name + self.ending for name in names)

    def joined(self, place: Path, contents: Mapping[str, bytes]) -> Cifar10:
        missing = [name for name in self.files if name not in contents]
        if missing:
            raise _refused(place / missing[0], f"is missing; expected {', '.join(self.files)}")
        batches = {place / name: self.records(place / name, contents[name]) for name in self.files}
        _check_one_size(batches)
        _check_unrepeated(batches)
        *train, test = batches.values()
        return _both(_joined(train), test)


LAYOUTS = (
    _Layout("cifar-10-batches-py", "cifar-10-python.tar.gz", "", _pickled),
    _Layout("cifar-10-batches-bin", "cifar-10-binary.tar.gz", ".bin", _binary),
)
