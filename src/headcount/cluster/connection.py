"""Connections to a Ray cluster: one that is running already, or one on this machine for the time of a run."""

import json
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
from headcount.validation import expected

CONNECT_TIMEOUT, ANSWER_TIMEOUT, START_TIMEOUT, STOP_TIMEOUT = 5.0, 20.0, 120.0, 10.0  # seconds
HEAD_TIMEOUT = 20.0  # after 60 s without an answer Ray ends the process with a message of its own
MAX_PORT = 65_535
AUTO = "auto"
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "critical"}

# In a process of its own: without an answer Ray waits for minutes and prints warnings, and it starts a
# cluster by forking, which is unsafe in a process that has loaded JAX. A cluster that it starts ends with it.
INIT = """
import json, sys, ray
try:
    found = ray.init(**json.loads(sys.argv[1]))
except (Exception, SystemExit) as error:
    print(f"{type(error).__name__}: {' '.join(str(error).split())}")
    sys.exit(1)
print(found.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


def imported(address: str | None) -> ModuleType:
    """Ray, imported after its environment variables are set: it reads them once, on import."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:  # other users of this machine must not be able to use a cluster of ours
        ray = sys.modules.get("ray")
        if ray is not None and not ray.is_initialized() and "RAY_AUTH_MODE" not in os.environ:
            raise InvalidInput(
                "Ray on this machine: ray is imported but not connected; call ray.init() first, "
                "or do not import ray"
            )
        _set_token(os.environ)
    return needed("ray", extra="ray", purpose="--engine ray")


def _set_token(environment: MutableMapping[str, str]) -> None:
    """Set a token for a cluster of our own, unless the user has chosen how to authenticate.

    Ray would store one in the home folder, and every later cluster of that user would require it.
    """
    if "RAY_AUTH_MODE" not in environment:
        environment["RAY_AUTH_MODE"] = "token"
        if "RAY_AUTH_TOKEN_PATH" not in environment:
            environment.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connect to the cluster at HOST:PORT, to one that `auto` finds here, or (None) to a new local one.

    A process that is connected already keeps its connection.
    """
    ray = imported(address)
    if ray.is_initialized():
        yield
        return
    if address is not None:
        _probe(address)
    with ExitStack() as stack:
        place = address or stack.enter_context(_own_cluster())
        try:
            with _stderr_discarded():
                ray.init(address=place, **QUIET)
        except (Exception, SystemExit) as error:
            raise InvalidInput(f"{_named(address)}: {_reason(f'{type(error).__name__}: {error}')}") from error
        stack.callback(ray.shutdown)
        yield


@contextmanager
def _own_cluster() -> Iterator[str]:
    """The address of a new local cluster; it stops when this process ends, even if killed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    host = subprocess.Popen(
        _init(address="local", num_cpus=cores, include_dashboard=False),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C must reach this process alone
    )
    assert host.stdin is not None
    assert host.stdout is not None
    try:
        if not select.select([host.stdout], [], [], START_TIMEOUT)[0]:
            raise InvalidInput(f"{_named(None)}: did not start in {START_TIMEOUT:.0f} s")
        said = host.stdout.readline().strip()
        if ":" not in said or " " in said:
            raise InvalidInput(f"{_named(None)}: {_reason(said)}")
        yield said
    finally:
        host.stdin.close()
        host.stdout.close()
        try:
            host.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            host.kill()
            host.wait()


@contextmanager
def _stderr_discarded() -> Iterator[None]:
    """Discard what Ray's threads write to the file descriptor; errors that matter are raised."""
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
    """The head of the cluster that this process is connected to; without it no node can be queried."""

    def __init__(self) -> None:
        import ray

        # A ray:// connection goes through Ray's client server, and the head may be out of reach.
        self.address = None if ray.util.client.ray.is_connected() else ray.get_runtime_context().gcs_address
        self._last_answer = time.monotonic()

    def answers(self) -> bool:
        """Whether it answers now; after HEAD_TIMEOUT seconds without an answer the cluster is lost."""
        if self.address is None:
            return True
        try:
            _reach(self.address)
        except OSError as error:
            silent = time.monotonic() - self._last_answer
            if silent > HEAD_TIMEOUT:
                raise ClusterLost(
                    f"the head of the cluster, {self.address}, has not answered for {silent:.0f} s"
                ) from error
            return False
        self._last_answer = time.monotonic()
        return True


def _probe(address: str) -> None:
    """Refuse an address without a cluster that this process can join."""
    if address != AUTO:
        host, _, port = address.rpartition(":")
        if "/" in address or not host or not port.isdigit():
            raise expected("--address", f"HOST:PORT of a cluster's head, or {AUTO}", address)
        if not 1 <= int(port) <= MAX_PORT:
            raise expected("--address", f"a port from 1 to {MAX_PORT}", address)
        try:
            _reach(address)
        except OSError as error:
            reason = error.strerror or error
            raise InvalidInput(f"{_named(address)}: no cluster answers there ({reason})") from error
    try:
        probe = subprocess.run(
            _init(address=address),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        silent = f"the port is open, but no cluster answers within {ANSWER_TIMEOUT:.0f} s"
        raise InvalidInput(f"{_named(address)}: {_asks_for_token(error.stderr) or silent}") from None
    if probe.returncode:
        raise InvalidInput(f"{_named(address)}: {_asks_for_token(probe.stderr) or _reason(probe.stdout)}")


def _reach(address: str) -> None:
    """Raise OSError where no process listens."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_TIMEOUT).close()


def _init(**options: Any) -> list[str]:
    """The command that runs `ray.init` with these options in another process."""
    return [sys.executable, "-c", INIT, json.dumps({**options, **QUIET})]


def _asks_for_token(errors: object) -> str:
    return "the cluster requires a token: set RAY_AUTH_MODE=token" if "AuthToken" in str(errors) else ""


def _named(address: str | None) -> str:
    return "Ray on this machine" if address is None else f"--address {address}"


def _reason(said: str) -> str:
    """The cause of a failed connection, in one line."""
    text = " ".join(said.split())
    if "ersion mismatch" in text:
        return f"the cluster has a different version: {text.partition('ersion mismatch: ')[2] or text}"
    if text.startswith("ConnectionError"):
        return "no cluster answers there; `ray start --head` starts one"
    return f"cannot be used: {text[:300] or 'Ray gave no reason'}"
