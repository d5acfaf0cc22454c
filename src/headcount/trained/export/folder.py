"""Folders that are either whole or not there."""

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from headcount.errors import InvalidInput, StorageError
from headcount.results.files import TEMPORARY, check_writable, is_running, this_host

MARK = "headcount.json"  # in every folder that is written here
Result = TypeVar("Result")


def check_free(name: str, folder: Path) -> None:
    """Refuse a folder with anything in it, unless it is a shrunk model, which is replaced."""
    check_writable(name, folder)
    try:
        filled = folder.exists() and any(folder.iterdir())
    except OSError as problem:
        raise InvalidInput(f"{name}: expected a folder, got {folder}: {problem.strerror}") from None
    if filled and not (folder / MARK).is_file():
        raise InvalidInput(
            f"{name}: expected an empty folder or a shrunk model, got {folder} with other files"
        )


def write_whole_folder(folder: Path, fill: Callable[[Path], Result]) -> Result:
    """Have a folder filled beside its place, then rename it; one that is there already is replaced.

    Whatever goes wrong, Ctrl-C too, the unfinished folder is removed; that of a killed process is removed by
    the next one that writes here.
    """
    folder = folder.absolute()
    _remove_leftovers(folder)
    unfinished, former = (_beside(folder) for _ in range(2))
    try:
        unfinished.mkdir(parents=True)
        result = fill(unfinished)
        for path in unfinished.iterdir():
            _flush(path)
        if folder.exists():
            folder.rename(former)
        unfinished.rename(folder)
    except OSError as problem:
        raise StorageError(f"{folder}: cannot be written: {problem.strerror or problem}") from problem
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if former.exists() and not folder.exists():
            former.rename(folder)
        shutil.rmtree(former, ignore_errors=True)
    return result


def _beside(folder: Path) -> Path:
    mark = f"{this_host()}.{os.getpid()}.{uuid.uuid4().hex[:8]}"
    return folder.with_name(f".{folder.name}.{mark}{TEMPORARY}")


def _remove_leftovers(folder: Path) -> None:
    start = f".{folder.name}.{this_host()}."
    for path in folder.parent.glob(f".*{TEMPORARY}"):
        process = path.name.removeprefix(start).partition(".")[0]
        if path.name.startswith(start) and process.isdecimal() and not is_running(int(process)):
            shutil.rmtree(path, ignore_errors=True)


def _flush(path: Path) -> None:
    if path.is_file():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
