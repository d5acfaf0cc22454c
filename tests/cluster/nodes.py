"""Ray nodes as processes on this machine, and sweeps on them as a user starts them."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import headcount

Seen = TypeVar("Seen")

BIN = Path(sys.executable).parent
TESTS, SOURCE = Path(__file__).parents[1], Path(headcount.__file__).parents[1]


def spec(*, seeds: int, steps: int = 900) -> str:
    """Members that train for about a second each and share one program."""
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
steps = {steps}
evaluate_every = 50
train_samples = 64
validation_samples = 32
test_samples = 32
batch_size = 64
"""


class Place:
    """A folder for compiled programs, logs and Ray's own files, and the environment that points there."""

    def __init__(self, cache: Path | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hc-"))  # short: Ray puts sockets there
        self.cache = cache or self.folder / "cache"
        token = self.folder / "token"
        token.write_text(secrets.token_hex(32))
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            "HEADCOUNT_CACHE": str(self.cache),
            # Every process runs the headcount that the tests import, and finds their modules.
            "PYTHONPATH": os.pathsep.join([*map(str, (TESTS, SOURCE)), os.environ.get("PYTHONPATH", "")]),
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_TMPDIR": str(self.folder),
            "RAY_USAGE_STATS_ENABLED": "0",
            # A node that is gone is noticed in seconds, and not in fifteen.
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "3",
        }
        self.begun: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str | Path) -> "Running":
        """Begin a process, in a group of its own, and go on."""
        log = self.folder / f"log-{len(self.begun)}"
        with log.with_suffix(".out").open("wb") as out, log.with_suffix(".err").open("wb") as err:
            popen = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self.environment,
                start_new_session=True,
            )
        self.begun.append(popen)
        return Running(popen, log)

    def headcount(self, *arguments: str | Path) -> "Running":
        return self.start(BIN / "headcount", *arguments)

    def python(self, program: str, *arguments: str | Path) -> "Running":
        return self.start(sys.executable, "-c", program, *arguments)

    def until_nothing_runs(self, seconds: float = 20) -> None:
        """Go on once no process is left that names the folder, as all of Ray's do."""
        deadline = time.monotonic() + seconds
        while left := [line for _, line in processes().values() if f"{self.folder}/ray" in line]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)

    def clear(self) -> None:
        for popen in self.begun:
            stop_group(popen)
        shutil.rmtree(self.folder, ignore_errors=True)


class Running:
    """A process that was begun, and what it says."""

    def __init__(self, popen: "subprocess.Popen[bytes]", log: Path) -> None:
        self.popen, self.log = popen, log

    @property
    def out(self) -> str:
        return self.log.with_suffix(".out").read_text()

    @property
    def err(self) -> str:
        return self.log.with_suffix(".err").read_text()

    def wait(self, seconds: float = 120) -> int:
        return self.popen.wait(seconds)

    def until(self, seen: Callable[[], Seen], seconds: float = 90) -> Seen:
        """What is seen, once there is something to see; the process must not end before."""
        deadline = time.monotonic() + seconds
        while not (found := seen()):
            assert self.popen.poll() is None, f"ended too early: {self.out}{self.err}"
            assert time.monotonic() < deadline, f"nothing seen for {seconds} s: {self.out}{self.err}"
            time.sleep(0.02)
        return found


class Cluster:
    """A head without cores, so that it does no work, and two nodes of one core each."""

    def __init__(self, place: Place) -> None:
        self.place = place
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self._start("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false")
        # One after the other: at once they would want the same ports.
        self.nodes = [self._start(f"--address={self.address}", "--num-cpus=1") for _ in range(2)]

    def _start(self, *options: str) -> Running:
        node = self.place.start(BIN / "ray", "start", "--block", "--disable-usage-stats", *options)
        node.until(lambda: "runtime started" in node.out)
        return node


def stop_group(popen: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it began, and do not ask."""
    for process in (popen.pid, *descendants(popen.pid)):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    popen.wait()


def descendants(process: int) -> dict[int, str]:
    """The command lines of all processes that it began, and of those that these began."""
    found, level, every = {}, {process: ""}, processes()
    while level:
        level = {child: line for child, (parent, line) in every.items() if parent in level}
        found |= level
    return found


def training(node: Running) -> list[int]:
    """The workers of a node that train a pack now: Ray writes what they do into their names."""
    below = descendants(node.popen.pid).items()
    return [process for process, line in below if line.startswith("ray::train_pack")]


def processes() -> dict[int, tuple[int, str]]:
    """The parent of every process, and what it was started as or says that it is."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
            found[int(entry.name)] = int(parent), (entry / "cmdline").read_text(errors="replace")
    return found
