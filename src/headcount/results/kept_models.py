"""Kept models, copied from several results folders into one.

A model is copied where its folder has a row for the trial: one without belongs to no result. Where several
folders keep a model of the same trial, one with outputs is preferred, then the one of the row that is kept,
then the one whose bytes have the smallest hash: it is the same one in whatever order the folders are named.
"""

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from headcount.errors import StorageError
from headcount.results.files import write_whole
from headcount.results.store import Store
from headcount.results.survey import Report, Survey


@dataclass(frozen=True)
class Archive:
    """The bytes of a kept model that is whole."""

    content: bytes
    has_outputs: bool
    is_of_kept_row: bool

    @property
    def place(self) -> tuple[bool, bool, bytes]:
        """The smallest is copied."""
        return not self.has_outputs, not self.is_of_kept_row, hashlib.sha256(self.content).digest()


def copy_models(survey: Survey, store: Store, report: Report = lambda _: None) -> tuple[int, list[str]]:
    """Copy what folders keep of their trials; returns how many, and a line for each that is damaged."""
    kept = {folder: _names(Store(folder).models) for folder in survey.members}
    copied = 0
    problems: list[str] = []
    for trial, found in survey.trials.items():
        name = f"{trial}.npz"
        archives: list[Archive] = []
        for folder in [folder for folder in found.folders if name in kept[folder]]:
            path = Store(folder).models / name
            if (archive := _read(path, is_of_kept_row=folder in found.homes)) is None:
                problems.append(f"{path}: damaged, left out")
            else:
                archives.append(archive)
        if archives:
            _put(min(archives, key=lambda archive: archive.place).content, store.models / name)
            copied += 1
            if copied % 100 == 0:
                report(f"{copied:,} models copied")
    return copied, problems


def _put(content: bytes, target: Path) -> None:
    """Write what is not there yet: the same merge run again reads, but does not write."""
    if not (target.is_file() and target.read_bytes() == content):
        write_whole(target, partial(_write, content))


def _write(content: bytes, file: BinaryIO) -> None:
    file.write(content)


def _names(folder: Path) -> set[str]:
    try:
        return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    except OSError as error:
        raise StorageError(f"{folder}: cannot be read: {error.strerror}") from error


def _read(path: Path, *, is_of_kept_row: bool) -> Archive | None:
    try:
        content = path.read_bytes()
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()
            whole = archive.testzip() is None and "leaf_0.npy" in names
    except Exception:  # damaged archives raise many exception types
        return None
    has_outputs = any(f"{split}_outputs.npy" in names for split in ("test", "train"))
    return Archive(content, has_outputs, is_of_kept_row) if whole else None
