"""CIFAR-10 in the folders and archives it is published in. Nothing is unpacked to disk."""

import gzip
import io
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int32, UInt8

from headcount.data.cifar10.batches import (
    Records,
    binary,
    check_one_size,
    check_unrepeated,
    pickled,
    reading,
    records,
    refused,
)
from headcount.extras import needed
from headcount.validation import shown

HUB = "uoft-cs/cifar10"
GZIP = b"\x1f\x8b"  # the first bytes of a .gz


@dataclass(frozen=True, eq=False)
class Cifar10:
    """Images [row, column, colour] and, for each, the index of its class in `CLASSES`."""

    train_images: UInt8[np.ndarray, "train 32 32 3"]
    train_labels: Int32[np.ndarray, " train"]
    test_images: UInt8[np.ndarray, "test 32 32 3"]
    test_labels: Int32[np.ndarray, " test"]


def load_cifar10(folder: Path | str) -> Cifar10:
    """The data set in a folder, in an archive or, if the path is "hub", on the Hugging Face hub.

    A folder may hold (or be) `cifar-10-batches-py` or `cifar-10-batches-bin`, or hold one of the archives
    `cifar-10-python.tar.gz` and `cifar-10-binary.tar.gz` (or the .tar in them). The first of these is read.
    `Path("hub")` is a folder if there is one of that name.
    """
    path = Path(folder)
    if folder == "hub" or (path == Path("hub") and not path.exists()):
        return _from_hub()
    try:
        return _from_archive(path) if path.is_file() else _from_folder(path)
    except OSError as error:
        raise refused(error.filename or path, f"cannot be read: {error.strerror or error}") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise refused(path, f"cannot be read: {error.strerror or error}") from None


def _from_folder(folder: Path) -> Cifar10:
    if not folder.is_dir():
        raise refused(folder, "no such folder or archive")
    for layout in LAYOUTS:
        for place in (folder / layout.folder, folder):
            there = [name for name in layout.files if (place / name).exists()]
            if there:
                return layout.joined(place, {name: _bytes(place / name) for name in there})
    for layout in LAYOUTS:
        for archive in (folder / layout.archive, folder / layout.archive.removesuffix(".gz")):
            if archive.is_file():
                return _from_archive(archive)
    known = [name for layout in LAYOUTS for name in (f"{layout.folder}/{layout.files[0]}", layout.archive)]
    raise refused(folder, f"holds no CIFAR-10; expected {', '.join(known[:-1])} or {known[-1]}")


def _from_archive(path: Path) -> Cifar10:
    """One pass through a .tar.gz to its very end, where the checksum is; or through a .tar."""
    wanted = {f"{layout.folder}/{name}" for layout in LAYOUTS for name in layout.files}
    found: dict[str, bytes] = {}
    others: list[str] = []
    content = _bytes(path)
    file = io.BytesIO(content)
    with (
        reading(path, "is damaged or not a .tar.gz or .tar"),
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
    raise refused(path, f"holds {shown(others)}; expected {expected} and so on")


def _from_hub() -> Cifar10:
    hub = needed("datasets", extra="hub", purpose="CIFAR-10 from the hub")
    splits = {}
    for split in ("train", "test"):
        with reading(f"hub: {HUB}", "cannot be read"):
            data = hub.load_dataset(HUB, split=split)
            images = np.stack([np.asarray(image) for image in data["img"]])
            labels = list(data["label"])
        where = f"hub: {HUB}, {split}"
        splits[where] = records(where, images, labels)
    check_unrepeated(splits)
    train, test = splits.values()
    return Cifar10(*train, *test)


@dataclass(frozen=True)
class _Layout:
    """A folder as it is published: five batches to train on, one to test, and how to read one."""

    folder: str
    archive: str
    ending: str
    read: Callable[[Path, bytes], Records]

    @property
    def files(self) -> tuple[str, ...]:
        names = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
        return tuple(name + self.ending for name in names)

    def joined(self, place: Path, contents: Mapping[str, bytes]) -> Cifar10:
        missing = [name for name in self.files if name not in contents]
        if missing:
            raise refused(place / missing[0], f"is missing; expected {', '.join(self.files)}")
        batches = {place / name: self.read(place / name, contents[name]) for name in self.files}
        check_one_size(batches)
        check_unrepeated(batches)
        *train, test = batches.values()
        images, labels = zip(*train, strict=True)
        return Cifar10(np.concatenate(images), np.concatenate(labels), *test)


LAYOUTS = (
    _Layout("cifar-10-batches-py", "cifar-10-python.tar.gz", "", pickled),
    _Layout("cifar-10-batches-bin", "cifar-10-binary.tar.gz", ".bin", binary),
)
