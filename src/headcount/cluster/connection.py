"""A Ray cluster to work on: one that runs already, or one on this machine for as long as it is needed."""

import os
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from headcount.errors import ClusterLost, InvalidInput
from headcount.extras import needed

TO_CONNECT, TO_ANSWER, TO_START, TO_END = 5.0, 20.0, 120.0, 10.0  # seconds
TO_COME_BACK = 20.0  # for a head that was lost; after 60 Ray ends the process, and says so in its own words
MAX_PORT = 65_535
FOUND = "auto"
QUIETLY: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}

# Both in processes of their own. Where nobody answers, Ray waits for minutes and complains meanwhile; and a
# cluster is started by forking, which a process with JAX in it should not do.
KNOCK = """
import sys, ray
try:
    found = ray.init(address=sys.argv[1], log_to_driver=False, logging_level="critical")
except (Exception, SystemExit) as error:
    print(f"{type(error).__name__}: {error}")
    sys.exit(1)
"""
HOST = """
import sys, ray
try:
    found = ray.init(
        address="local",
        num_cpus=int(sys.argv[1]),
        include_dashboard=False,
        log_to_driver=False,
        logging_level="critical",
    )
except (Exception, SystemExit) as error:
    print(f"{type(error).__name__}: {' '.join(str(error).split())}")
    sys.exit(1)
print(found.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


def imported(address: str | None) -> ModuleType:
    """Ray, imported after the environment says how it is to be used: it looks there once, when imported."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:  # nobody else on this machine shall be able to use a cluster of ours
        if _waiting_to_start() and "RAY_AUTH_MODE" not in os.environ:
            raise InvalidInput(
                "Ray on this machine: ray was imported already; call ray.init() as well, or neither"
            )
        _guard(os.environ)
    return needed("ray", extra="ray", purpose="--engine ray")


def _guard(environment: MutableMapping[str, str]) -> None:
    """A token for a cluster of our own, unless a person has seen to it.

    Ray would keep one for good in the home folder, and every cluster started from there would ask for it.
    """
    if "RAY_AUTH_MODE" not in environment:
        environment["RAY_AUTH_MODE"] = "token"
        if "RAY_AUTH_TOKEN_PATH" not in environment:
            environment.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


def _waiting_to_start() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and not ray.is_initialized()


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connected to the cluster at HOST:PORT, to one that `auto` finds here, or (None) to one of our own.

    A process that is connected already stays so, and its cluster is used.
    """
    ray = imported(address)
    if ray.is_initialized():
        yield
        return
    with ExitStack() as stack:
        if address is None:
            place = stack.enter_context(_own_cluster())
        else:
            _knock(address)
            place = address
        try:
            with _nothing_said():
                ray.init(address=place, **QUIETLY)
        except (Exception, SystemExit) as error:
            raise InvalidInput(f"{_named(address)}: {_reason(f'{type(error).__name__}: {error}')}") from error
        stack.callback(ray.shutdown)
        yield


@contextmanager
def _own_cluster() -> Iterator[str]:
    """The address of a cluster of this machine's own; it ends when this process does, however that comes."""
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(_cores())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is for us to answer
    )
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        if not select.select([host.stdout], [], [], TO_START)[0]:
            raise InvalidInput(f"{_named(None)}: did not start in {TO_START:.0f} s")
        said = host.stdout.readline().strip()
        if ":" not in said or " " in said:
            raise InvalidInput(f"{_named(None)}: {_reason(said)}")
        yield said
    finally:
        host.stdin.close()
        host.stdout.close()
        try:
            host.wait(TO_END)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()


@contextmanager
def _nothing_said() -> Iterator[None]:
    """What Ray's own threads write past Python goes nowhere: what matters is raised."""
    sys.stderr.flush()
    errors, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(errors, 2)
        os.close(errors)
        os.close(nowhere)


class Head:
    """The head of the cluster that this process is connected to: without it no node can be asked anything."""

    def __init__(self) -> None:
        import ray

        # Whoever came by ray:// talks to a server of Ray's, and may have no way to the head.
        self.address = None if ray.util.client.ray.is_connected() else ray.get_runtime_context().gcs_address
        self._heard = time.monotonic()

    def answers(self) -> bool:
        """Whether it does now; once it has been silent for too long the cluster is lost."""
        if self.address is None:
            return True
        try:
            _reach(self.address)
        except OSError as error:
            silent = time.monotonic() - self._heard
            if silent > TO_COME_BACK:
                raise ClusterLost(
                    f"the head of the cluster, {self.address}, has not answered for {silent:.0f} s"
                ) from error
            return False
        self._heard = time.monotonic()
        return True


def _knock(address: str) -> None:
    """Refuse an address where no cluster answers that this process can join."""
    if address != FOUND:
        host, _, port = address.rpartition(":")
        if "/" in address or not host or not port.isdigit():
            raise InvalidInput(f"{_named(address)}: allowed is HOST:PORT of a cluster's head, or {FOUND}")
        if not 1 <= int(port) <= MAX_PORT:
            raise InvalidInput(f"{_named(address)}: allowed are ports from 1 to {MAX_PORT}")
        try:
            _reach(address)
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInput(f"{_named(address)}: no cluster answers there ({reason})") from error
    try:
        knocked = subprocess.run(
            [sys.executable, "-c", KNOCK, address], capture_output=True, text=True, timeout=TO_ANSWER
        )
    except subprocess.TimeoutExpired as error:
        silent = f"something listens there, but no cluster answers in {TO_ANSWER:.0f} s"
        raise InvalidInput(f"{_named(address)}: {_asks_for_token(error.stderr) or silent}") from None
    if knocked.returncode:
        raise InvalidInput(f"{_named(address)}: {_asks_for_token(knocked.stderr) or _reason(knocked.stdout)}")


def _reach(address: str) -> None:
    """Raise where nothing listens."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=TO_CONNECT).close()


def _asks_for_token(errors: object) -> str:
    return "it asks for a token: set RAY_AUTH_MODE=token" if "AuthToken" in str(errors) else ""


def _named(address: str | None) -> str:
    return "Ray on this machine" if address is None else f"--address = {address}"


def _reason(said: str) -> str:
    """What went wrong, in a line."""
    text = " ".join(said.split())
    if "ersion mismatch" in text:
        return f"the cluster has another version: {text.partition('ersion mismatch: ')[2] or text}"
    if text.startswith("ConnectionError"):
        return "no cluster answers there; `ray start --head` starts one"
    return f"cannot be used: {text[:300] or 'Ray gave no reason'}"


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
