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
from pathlib import Path

BIN = Path(sys.executable).parent


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
        while left := [line for line in command_lines().values() if f"{self.folder}/ray" in line]:
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

    def until(self, seen: Callable[[], object], seconds: float = 90) -> None:
        """Go on once something is seen; the process must not end before."""
        deadline = time.monotonic() + seconds
        while not seen():
            assert self.popen.poll() is None, f"ended too early: {self.out}{self.err}"
            assert time.monotonic() < deadline, f"nothing seen for {seconds} s: {self.out}{self.err}"
            time.sleep(0.02)


class Cluster:
    """A head without cores, so that it does no work, and nodes of one core each."""

    def __init__(self, place: Place, nodes: int = 2) -> None:
        self.place = place
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"127.0.0.1:{port}"
        self.head = self._start("--head", f"--port={port}", "--num-cpus=0", "--include-dashboard=false")
        self.head.until(lambda: "runtime started" in self.head.out)
        self.nodes: list[Running] = []
        self.fill_up(nodes)

    def fill_up(self, nodes: int) -> None:
        """Start as many nodes as are missing, one after the other: at once they would want the same ports."""
        self.nodes = [node for node in self.nodes if node.popen.poll() is None]
        while len(self.nodes) < nodes:
            node = self._start(f"--address={self.address}", "--num-cpus=1")
            node.until(lambda node=node: "runtime started" in node.out)  # type: ignore[misc]
            self.nodes.append(node)

    def _start(self, *options: str) -> Running:
        return self.place.start(BIN / "ray", "start", "--block", "--disable-usage-stats", *options)


def stop_group(popen: "subprocess.Popen[bytes]") -> None:
    """End a process and all that it began, and do not ask."""
    began = descendants(popen.pid)
    for process in (popen.pid, *began):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
    popen.wait()


def descendants(process: int) -> list[int]:
    """All processes that it began, and those that these began."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found, level = [], [process]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        found += level
    return found


def training(process: int) -> list[int]:
    """The workers below a process that train a pack now: Ray writes what they do into their names."""
    below, lines = descendants(process), command_lines()
    return [child for child in below if lines.get(child, "").startswith("ray::train_pack")]


def command_lines() -> dict[int, str]:
    """What every process was started as, or says that it is."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
    return found
