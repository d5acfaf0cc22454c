"""One writer at a time: the lock on a results folder.

    DIR/writer.lock    {"host": …, "process": …, "started": …, "since": …}, while somebody writes

The operating system's lock on that file decides between processes of this machine, and ends with the process
that holds it, however it ends. What the file says is needed for the message and where the file system has no
such locks, or none that other machines see: a holder on this machine counts while its process runs, one on
another machine until the file is removed by hand.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from io import FileIO
from pathlib import Path

from headcount.errors import StorageError
from headcount.results.files import is_running, this_host

fcntl = import_module("fcntl") if os.name == "posix" else None
LOCK = "writer.lock"


class Locked(StorageError):
    """A results folder that somebody else is writing to."""


@dataclass(frozen=True)
class Holder:
    """Who writes to a folder; `started` tells a process from a later one of the same number."""

    host: str
    process: int
    started: str
    since: str

    @property
    def is_alive(self) -> bool:
        """Whether it may still write, as far as one can see from here."""
        if self.host != this_host():
            return True
        return is_running(self.process) and _started(self.process) == self.started


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Be the only writer of a folder, which is made where there is none; `Locked` names who else is."""
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _taken(path)
    except StorageError:
        raise
    except FileExistsError:
        raise StorageError(f"{folder}: is a file; expected a folder") from None
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written: {error.strerror}") from error
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)  # before it is unlocked: nobody else's is removed
        file.close()


def _taken(path: Path) -> FileIO:
    """The lock file, locked and with this process in it."""
    while True:
        file = FileIO(path, "a+")
        try:
            _lock(file, path)
            if _is_at(file, path):
                if (holder := _read(file)) is not None and holder.is_alive:
                    raise _refusal(path, holder)
                _sign(file, path)
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # its holder removed it meanwhile: the next one is another file


def _sign(file: FileIO, path: Path) -> None:
    me = Holder(this_host(), os.getpid(), _started(os.getpid()), time.strftime("%Y-%m-%d %H:%M:%S"))
    try:
        file.truncate(0)
        file.write(json.dumps(asdict(me)).encode())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _lock(file: FileIO, path: Path) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _refusal(path, _read(file)) from None
    except OSError:  # a file system without locks: the holder's name has to do
        return


def _is_at(file: FileIO, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    return False


def _read(file: FileIO) -> Holder | None:
    file.seek(0)
    try:
        holder = Holder(**json.loads(file.read()))
        return holder if isinstance(holder.process, int) else None
    except (ValueError, TypeError):  # empty, or cut short by a kill
        return None


def _refusal(path: Path, holder: Holder | None) -> Locked:
    if holder is None:
        return Locked(f"{path.parent}: another process has just begun to write to it; try again")
    who, advice = f"process {holder.process} on {holder.host}", "wait for it, or use another folder"
    if holder.host != this_host():
        advice = f"if it no longer runs there, remove {path}"
    elif holder.process == os.getpid():
        who = "an earlier run of this process"
        advice = "close its generator, or wait until its current chunk is done"
    return Locked(f"{path.parent}: is being written to by {who}, since {holder.since}; {advice}")


def _started(process: int) -> str:
    """When a process began, in the kernel's ticks; empty where the kernel does not say."""
    try:
        # The name of the program, in brackets, may hold anything: the fields are counted after it.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return "ended" if fields[0] == "Z" else fields[19]  # a zombie has ended, but nobody asked how
    except (OSError, IndexError):
        return ""
