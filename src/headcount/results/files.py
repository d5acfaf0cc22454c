"""Files that are either whole or not there."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from headcount.errors import StorageError

TEMPORARY = ".partial"


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write under a temporary name, flush to disk, rename: a reader never sees half a file."""
    temporary = path.with_name(f"{path.name}.{_host()}.{os.getpid()}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        _discard(temporary)
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error


def remove_leftovers(folder: Path) -> None:
    """Temporary files of this machine's processes that were killed while they wrote."""
    for path in folder.glob(f"*.{_host()}.*{TEMPORARY}"):
        if not _alive(path.name.removesuffix(TEMPORARY).rpartition(".")[2]):
            _discard(path)


def _host() -> str:
    return socket.gethostname().partition(".")[0] or "host"


def _alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True


def _discard(path: Path) -> None:
    with suppress(OSError):  # what cannot be removed does no harm: readers pass it over
        path.unlink(missing_ok=True)
