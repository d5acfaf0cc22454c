"""Specifications, real processes and looks at results folders, shared by the tests here."""

import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import pandas as pd

from headcount.results.store import read_results

HEADCOUNT = str(Path(sys.executable).with_name("headcount"))

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


def tiny(old: str = "", new: str = "") -> str:
    """The tiny specification with one piece of it replaced."""
    assert old in TINY, old
    return TINY.replace(old, new, 1)


def heavy(seeds: int) -> str:
    """Packs of eight seeds that train for some seconds each, in several chunks; all share one program."""
    return f"""\
[task]
name = "max_sum"
dimension = 2
token_dim = 2

[model]
heads = 1
head_dim = 2
hidden = 16

[training]
length = 16
seeds = {seeds}
steps = 4000
evaluate_every = 50
train_samples = 64
validation_samples = 32
test_samples = 32
batch_size = 64
"""


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@dataclass
class Process:
    """`headcount` as a user starts it, in a process group of its own, with its output in files."""

    popen: "subprocess.Popen[bytes]"
    output: Path
    errors: Path

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
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()


def environment(cache: Path) -> dict[str, str]:
    """The one of this process, less what would change how `headcount` prints."""
    changed = {name: value for name, value in os.environ.items() if name not in _PRINTING}
    return changed | {"HEADCOUNT_CACHE": str(cache)}


_PRINTING = {"COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"}


def start(*arguments: str | Path, cache: Path, log: Path, program: str = HEADCOUNT) -> Process:
    """Begin a process and go on; what it prints is beside `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    output, errors = log.with_name(f"{log.name}.out"), log.with_name(f"{log.name}.err")
    with output.open("wb") as out, errors.open("wb") as err:
        popen = subprocess.Popen(
            [program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=environment(cache),
            start_new_session=True,
        )
    return Process(popen, output, errors)


def wait_until(seen: Callable[[], bool], popen: "subprocess.Popen[bytes]", seconds: float = 90) -> bool:
    """Whether it was seen before the process ended by itself."""
    deadline = time.monotonic() + seconds
    while not seen():
        if popen.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing happened for {seconds} s")
        time.sleep(0.01)
    return True


def numbers(folder: Path) -> pd.DataFrame:
    """The results less the only column that may differ from run to run."""
    return read_results(folder).drop(columns="seconds")


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Exactly, not nearly: not a bit may differ."""
    pd.testing.assert_frame_equal(one, other, check_exact=True)


Mark = tuple[int, int, str]


def marks(folder: Path) -> dict[Path, Mark]:
    """When every file was written, which file it is, and what it holds."""
    return {path: _mark(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def _mark(path: Path) -> Mark:
    status = path.stat()
    return status.st_mtime_ns, status.st_ino, hashlib.sha256(path.read_bytes()).hexdigest()


def shards(folder: Path) -> list[Path]:
    return sorted((folder / "shards").glob("*.parquet"))


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").glob("*.npz"))


def steps_made(folder: Path) -> dict[str, int]:
    """How far each pack under way has come, as of its checkpoint: its largest counter."""
    found = {}
    for path in checkpoints(folder):
        try:
            with np.load(path) as saved:
                found[path.stem] = max(
                    int(leaf.max()) for leaf in saved.values() if leaf.dtype == np.int32 and leaf.size
                )
        except (FileNotFoundError, BadZipFile):  # its pack was finished meanwhile
            continue
    return found


def _moments(folder: Path) -> dict[Path, int]:
    found = {}
    for path in [*checkpoints(folder), *shards(folder)]:
        try:
            found[path] = path.stat().st_mtime_ns
        except FileNotFoundError:
            continue
    return found


class Disturbed:
    """A sweep that is killed at random moments after its first chunk, and started again until it is done.

    Checked after every run: what was finished before it is untouched, and what was under way goes on.
    """

    def __init__(self, spec: Path, out: Path, cache: Path) -> None:
        self.spec, self.out, self.cache = spec, out, cache
        self.runs = 0

    def kill_once(self, *, shards_first: int = 0) -> bool:
        """One run, killed once it made a chunk and so many shards are there; False where it was done."""
        before, finished, under_way = _moments(self.out), marks(self.out / "shards"), steps_made(self.out)
        process = self._start()
        try:
            going = wait_until(lambda: _moments(self.out) != before, process.popen)
            resumed = steps_made(self.out)
            going = going and wait_until(lambda: len(shards(self.out)) >= shards_first, process.popen)
            if going:
                time.sleep(random.uniform(0, 1.2))
        finally:
            process.popen.kill()
        if process.wait() != -9:
            self.check_end(process)
            return False
        self._untouched(finished)
        for pack in under_way.keys() & resumed.keys():
            assert resumed[pack] > under_way[pack], f"{pack} began again: step {resumed[pack]}"
        left = steps_made(self.out)
        for pack in under_way.keys() & left.keys():
            assert left[pack] > under_way[pack], f"{pack} fell back to step {left[pack]}"
        return True

    def finish(self) -> Process:
        """The last run, left alone."""
        finished = marks(self.out / "shards")
        process = self._start()
        process.wait()
        self._untouched(finished)
        self.check_end(process)
        return process

    def check_end(self, process: Process) -> None:
        assert process.popen.returncode == 0, process.err
        assert process.err == "", "nobody looks: nothing is said"
        leftovers = [str(path) for path in self.out.rglob("*.partial")]
        assert not leftovers, leftovers

    def _untouched(self, finished: dict[Path, Mark]) -> None:
        after = marks(self.out / "shards")
        for path, mark in finished.items():
            if path.suffix == ".parquet":
                assert after.get(path) == mark, f"{path} was written again"

    def _start(self) -> Process:
        self.runs += 1
        log = self.out.with_name(f"{self.out.name}.{self.runs}")
        return start("sweep", self.spec, "--out", self.out, cache=self.cache, log=log)


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


Command = Callable[..., Result]


class Undisturbed:
    """A sweep in a process of its own that nobody disturbs; other tests go on meanwhile."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.spec = write(folder / "heavy.toml", heavy(seeds=17))
        self.out = folder / "results"
        self.process: Process = start(
            "sweep", self.spec, "--out", self.out, "--json", cache=cache, log=folder / "log"
        )

    def frame(self) -> pd.DataFrame:
        """Its results, once it is done."""
        assert self.process.wait() == 0, self.process.err
        return numbers(self.out)


class Disk:
    """A small disk of its own, mounted in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filler = folder / "filler"

    def fill(self, *, leave: int) -> None:
        """Until only so many bytes are free."""
        with self.filler.open("wb", buffering=0) as file:
            size = 0
            try:
                while True:
                    size += file.write(bytes(4096))
            except OSError:
                file.truncate(size - leave)

    def empty(self) -> None:
        self.filler.unlink()

    def remount(self, options: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{options}", self.folder], check=True)
