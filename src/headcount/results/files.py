"""Files that are either whole or not there."""

import errno
import os
import socket
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from headcount.errors import InvalidInput, StorageError

TEMPORARY = ".partial"
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # file systems without a flush of folders


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write under a temporary name, flush to disk, rename: a reader never sees half a file.

    The name is unique, so that several writers of one path do not disturb each other: the last one wins.
    Whatever goes wrong, Ctrl-C too, the temporary file is removed.
    """
    temporary = path.with_name(f"{path.name}.{this_host()}.{os.getpid()}.{uuid.uuid4().hex[:8]}{TEMPORARY}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _flush_folder(path.parent)
    except OSError as error:
        _discard(temporary)
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error
    except BaseException:
        _discard(temporary)
        raise


def check_writable(name: str, folder: Path) -> None:
    """Refuse a folder that cannot be made or written to; nothing is left behind."""
    try:
        with tempfile.TemporaryDirectory(dir=_nearest_existing(folder)):
            pass
    except OSError as error:
        raise InvalidInput(f"{name}: expected a writable folder, got {folder}: {error.strerror}") from None


def _nearest_existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists."""
    try:
        path.lstat()
    except FileNotFoundError:
        return _nearest_existing(path.parent)
    return path


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of processes of this machine that were killed while they wrote."""
    mark = f".{this_host()}."
    for path in folder.glob(f"*{mark}*{TEMPORARY}"):
        process = path.name.removesuffix(TEMPORARY).rpartition(mark)[2].partition(".")[0]
        if not (process.isdecimal() and is_running(int(process))):
            _discard(path)


def this_host() -> str:
    """The name of this machine, without its domain."""
    return socket.gethostname().partition(".")[0] or "host"


def is_running(process: int) -> bool:
    """Whether there is a process of this number on this machine."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _flush_folder(folder: Path) -> None:
    """Make a rename last: after a power cut, a folder that was not flushed may have the old name."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows opens no folders
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH:
            raise
    finally:
        os.close(descriptor)


def _discard(path: Path) -> None:
    with suppress(OSError):  # what cannot be removed does no harm: readers pass it over
        path.unlink(missing_ok=True)
