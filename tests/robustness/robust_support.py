"""Specifications, real processes and looks at results folders, shared by the tests here."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.cells import cell_len

from headcount.results.store import read_results

# Two packs, of eight members and of two, that share one program.
TINY = """\
[task]
name = "max_sum"
dimension = 2
token_dim = 2

[model]
heads = [1, 2]
head_dim = 2
hidden = 4

[training]
length = 4
seeds = 5
steps = 40
evaluate_every = 10
train_samples = 64
validation_samples = 32
test_samples = 32
batch_size = 16
"""


def tiny(old: str, new: str = "") -> str:
    """The tiny specification with one piece of it replaced."""
    assert old in TINY, old
    return TINY.replace(old, new, 1)


def heavy(seeds: int) -> str:
    """Packs of eight seeds that train for some seconds each, in several chunks; all share one program."""
    sizes = {"heads": 1, "hidden": 16, "length": 16, "seeds": seeds, "batch_size": 64}
    text = TINY
    for name, value in {**sizes, "steps": 4000, "evaluate_every": 50}.items():
        text = re.sub(f"^{name} = .*", f"{name} = {value}", text, flags=re.MULTILINE)
    return text


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


class Process:
    """`headcount` as a user starts it, in a process group of its own, with its output in files."""

    def __init__(self, *arguments: str | Path, cache: Path, log: Path, **streams: int) -> None:
        self.output, self.errors = log.with_name(f"{log.name}.out"), log.with_name(f"{log.name}.err")
        printing = {"COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}
        environment = {name: value for name, value in os.environ.items() if name not in printing}
        with self.output.open("wb") as out, self.errors.open("wb") as err:
            self.popen = subprocess.Popen(
                [Path(sys.executable).with_name("headcount"), *arguments],
                env={**environment, "HEADCOUNT_CACHE": str(cache), "TERM": "xterm-256color"},
                start_new_session=True,
                **{"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **streams},
            )

    @property
    def out(self) -> str:
        return self.output.read_text()

    @property
    def err(self) -> str:
        return self.errors.read_text()

    def wait(self, seconds: float = 120) -> int:
        try:
            return self.popen.wait(seconds)
        finally:
            self.stop()

    def stop(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def wait_until(self, seen: Callable[[], bool], seconds: float = 90) -> bool:
        """Whether it was seen before the process ended by itself."""
        deadline = time.monotonic() + seconds
        while not seen():
            if self.popen.poll() is not None:
                return False
            if time.monotonic() > deadline:
                raise TimeoutError(f"nothing happened for {seconds} s")
            time.sleep(0.01)
        return True


class AtTerminal(Process):
    """`headcount` at a terminal of 80 × 24 characters."""

    def __init__(self, *arguments: str | Path, cache: Path, log: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        super().__init__(*arguments, cache=cache, log=log, stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        with self.errors.open("wb") as file, suppress(OSError):  # raised once the other end is closed
            while data := os.read(self._master, 4096):
                file.write(data)

    def stop(self) -> None:
        super().stop()
        self._reader.join(timeout=10)
        os.close(self._master)


def drawn(text: str) -> list[str]:
    """The lines between movements of the cursor, without colours."""
    parts = re.split(r"\r|\n|\x1b\[[0-9;]*[ABEFGHJ]", text)
    return [line for part in parts if (line := re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", part).rstrip())]


def widest(text: str) -> int:
    return max(map(cell_len, drawn(text)), default=0)


def numbers(folder: Path) -> pd.DataFrame:
    """The results less the only column that may differ from run to run."""
    return read_results(folder).drop(columns="seconds")


def same(one: Path | pd.DataFrame, other: Path | pd.DataFrame) -> None:
    """Exactly, not nearly: not a bit may differ."""
    frames = [numbers(each) if isinstance(each, Path) else each for each in (one, other)]
    pd.testing.assert_frame_equal(*frames, check_exact=True)


def marks(folder: Path) -> dict[Path, tuple[int, int, bytes]]:
    """When every file was written, which file it is, and what it holds."""
    return {
        path: (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "shards").glob("*.parquet"))


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").glob("*.npz"))


@dataclass(frozen=True)
class Result:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it printed for the user."""
        return self.err.splitlines()

    @property
    def json(self) -> dict[str, Any]:
        """What it printed with --json: JSON by the standard, and nothing else."""

        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is no JSON")

        return json.loads(self.out, parse_constant=refuse)


def check_refused(result: Result, *fragments: str | Path) -> None:
    """One line that names the error, with the fragments, and exit code 2."""
    assert (result.code, result.out, len(result.lines)) == (2, "", 1), result
    assert result.err.startswith("headcount: error: ")
    assert result.err.endswith("\n")
    for fragment in fragments:
        assert str(fragment) in result.err, f"{fragment!r} is not in: {result.err}"
    for internal in ("Traceback", "instance of", "tasktable", "gridtable", "line None", "0x7f"):
        assert internal not in result.err
