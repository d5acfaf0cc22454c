"""A real process at a pseudo-terminal, and the lines that it draws there."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from pathlib import Path

from rich.cells import cell_len
from robust_support import HEADCOUNT, environment

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MOVES = re.compile(r"\r|\n|\x1b\[[0-9;]*[ABEFGHJ]")


def drawn(text: str) -> list[str]:
    """The lines between movements of the cursor, without colours."""
    return [line for part in _MOVES.split(text) if (line := _CONTROL.sub("", part).rstrip())]


def widest(text: str) -> int:
    return max(map(cell_len, drawn(text)), default=0)


class AtTerminal:
    """`headcount` at a terminal."""

    def __init__(self, *arguments: str | Path, cache: Path, columns: int = 80, rows: int = 24) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.popen = subprocess.Popen(
            [HEADCOUNT, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(cache) | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self._seen: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 4096)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            self._seen.append(data)

    def close(self) -> str:
        """Everything that was drawn; the process is ended if it still runs."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self._reader.join(timeout=10)
        os.close(self._master)
        return b"".join(self._seen).decode()
