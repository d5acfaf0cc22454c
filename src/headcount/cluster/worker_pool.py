"""The workers of a cluster: only nodes that have shown that they can run headcount get packs."""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any

from headcount.cluster.connection import Head
from headcount.cluster.payload import with_data
from headcount.cluster.worker import reason_of, train_pack
from headcount.errors import InvalidInput
from headcount.running.executor import FileProblem
from headcount.trials.machine import DeviceKind, Machine
from headcount.trials.pack import Pack

DISCOVERY_SECONDS = 15.0  # that all nodes have to answer; after that, those that have are enough
POLL_SECONDS = 0.5
MAX_FAILURES_IN_A_ROW = 3  # of one worker of a node, before the node is excluded
MIN_MEMORY = 0.5  # share of the memory that packs were planned for: members fill only a part of it

Node = dict[str, Any]
Description = dict[str, Any]  # how a node describes itself before it gets any packs


class WorkerPool:
    """Workers with one GPU each, or one core each, on the healthy nodes of the cluster.

    A node is asked to describe itself when it joins. It is healthy once it has answered with the right
    versions and the right device. Until then it gets no packs; after a wrong answer it is excluded.
    """

    def __init__(self, kind: DeviceKind, payload: tuple[Any, ...]) -> None:
        self.kind, self.payload = kind, payload
        self.healthy: dict[str, Machine] = {}  # with the memory of one worker
        self.excluded: dict[str, str] = {}
        self.pending: dict[Any, str] = {}
        self.planned_memory = 0
        self._alive: dict[str, Node] = {}
        self._failures: Counter[str] = Counter()
        self._tasks: dict[str, Any] = {}
        self._versions, self._head = here(), Head()

    @property
    def workers(self) -> int:
        """How many there are now; nodes may join and leave at any time."""
        return sum(self.workers_of(node) for node in self.healthy)

    @property
    def smallest(self) -> Machine:
        """The machine with the least memory, which packs must fit."""
        return min(self.healthy.values(), key=lambda machine: machine.memory)

    @property
    def discovering(self) -> bool:
        """Whether some nodes have not answered yet."""
        return not self._alive.keys() <= {*self.healthy, *self.excluded}

    def workers_of(self, node: str) -> int:
        """How many packs a node can train at the same time."""
        return _workers_of(self._alive[node], self.kind) if node in self._alive else 0

    def refresh(self, *, wait: float = 0.0) -> list[str]:
        """Update the pool: nodes that joined, left or answered. Returns messages for the user."""
        if not self._head.answers():
            return []  # without a head, a query to Ray would block and then end this process
        self._alive = {node["NodeID"]: node for node in nodes() if _workers_of(node, self.kind)}
        self.healthy = {node: machine for node, machine in self.healthy.items() if node in self._alive}
        known = {*self.healthy, *self.excluded, *self.pending.values()}
        for node in self._alive:
            if node not in known:
                self.pending[self._query(node)] = node
        return [line for reference in _ready(self.pending, wait) if (line := self._receive(reference))]

    def exclude(self, node: str, reason: str) -> str:
        """Give a node no more packs; returns the message about it."""
        self.healthy.pop(node, None)
        self.excluded[node] = reason
        return f"node {self._name(node)} is excluded: {reason}"

    def exclude_smallest(self, reason: str) -> list[str]:
        """Exclude the nodes that have the least memory."""
        least = self.smallest.memory
        return [
            self.exclude(node, reason) for node in list(self.healthy) if self.healthy[node].memory == least
        ]

    def note_failure(self, node: str, reason: str) -> str:
        """A node failed: it must describe itself again or, after too many failures in a row, is excluded."""
        self.healthy.pop(node, None)
        self._failures[node] += 1
        if self._failures[node] > MAX_FAILURES_IN_A_ROW * max(1, self.workers_of(node)):
            return self.exclude(node, reason)
        return ""

    def mark_healthy(self, node: str) -> None:
        """A node trained a pack: its failures so far no longer count."""
        self._failures.pop(node, None)

    def submit(self, pack: Pack, node: str, *, keep_models: bool) -> Any:
        """Send a pack to a node; returns the reference of its result."""
        if node not in self._tasks:
            self._tasks[node] = self._on(node, train_pack)
        return self._tasks[node].remote(with_data(pack, {}), self.kind, self.payload, keep_models)

    def refusal(self) -> str:
        """Why no node can be used."""
        if not self.excluded:
            return "cluster: expected at least one node with a CPU, got none"
        node, reason = next(iter(self.excluded.items()))
        return f"no node of the cluster can be used; {self._name(node)}: {reason}"

    def _query(self, node: str) -> Any:
        return self._on(node, describing()).remote(self.kind, self._versions, self.payload)

    def _on(self, node: str, function: Callable[..., Any]) -> Any:
        """The function as a Ray task that one worker of the node runs, once."""
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        task = ray.remote(max_retries=0, num_cpus=1, num_gpus=int(self.kind == "gpu"))(function)
        return task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False))

    def _receive(self, reference: Any) -> str:
        """Process a node's description; returns the message about a node that is excluded."""
        import ray

        node = self.pending.pop(reference)
        try:
            description: Description = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            return self.exclude(node, f"cannot run headcount: {reason_of(error)}")
        except ray.exceptions.RayError as error:
            # The node or its worker was lost: the next refresh asks again if the node is alive.
            return self.note_failure(node, f"no worker can start ({type(error).__name__})")
        if wrong := difference(description["versions"], self._versions):
            return self.exclude(node, wrong)
        return self._admit(node, description["machine"])

    def _admit(self, node: str, machine: Machine) -> str:
        shared_by = max(1, self.workers_of(node)) if machine.kind == "cpu" else 1
        machine = replace(machine, memory=machine.memory // shared_by)
        if machine.memory < MIN_MEMORY * self.planned_memory:
            has, needed = (f"{memory / 2**30:,.1f}" for memory in (machine.memory, self.planned_memory))
            return self.exclude(node, f"expected {needed} GiB per worker as planned, got {has} GiB")
        self.healthy[node] = machine
        return ""

    def _name(self, node: str) -> str:
        about = self._alive.get(node, {})
        return str(about.get("NodeManagerHostname") or about.get("NodeManagerAddress") or node)


def discover(payload: tuple[Any, ...]) -> Generator[FileProblem, None, WorkerPool]:
    """The GPUs of the cluster or, if JAX can use none of them, its cores."""
    if any(_workers_of(node, "gpu") for node in nodes()):
        pool = WorkerPool("gpu", payload)
        yield from wait_for_nodes(pool)
        if pool.healthy:
            return pool
        yield FileProblem(f"the cluster has GPUs, but training uses its cores: {pool.refusal()}")
    pool = WorkerPool("cpu", payload)
    yield from wait_for_nodes(pool)
    if not pool.healthy:
        raise InvalidInput(pool.refusal())
    return pool


def wait_for_nodes(pool: WorkerPool) -> Generator[FileProblem, None, None]:
    """Wait until all nodes have answered, or some have and DISCOVERY_SECONDS have passed."""
    began, reported = time.monotonic(), False
    lines = pool.refresh(wait=POLL_SECONDS)
    while pool.discovering and not (pool.healthy and time.monotonic() - began > DISCOVERY_SECONDS):
        lines += pool.refresh(wait=POLL_SECONDS)
        if not pool.healthy and not reported and time.monotonic() - began > DISCOVERY_SECONDS:
            reported = True
            yield FileProblem("no worker of the cluster is free yet: waiting for one")
    if pool.healthy:  # otherwise the refusal gives the reason
        yield from map(FileProblem, lines)


def nodes() -> list[Node]:
    """The nodes that are alive."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _ready(references: Iterable[Any], wait: float) -> list[Any]:
    import ray

    pending = list(references)
    return list(ray.wait(pending, num_returns=len(pending), timeout=wait)[0]) if pending else []


def _workers_of(node: Node, kind: DeviceKind) -> int:
    cores, cards = (int(node["Resources"].get(name, 0)) for name in ("CPU", "GPU"))
    return min(cores, cards) if kind == "gpu" else cores


def describing() -> Callable[..., Description]:
    """The function with which a process describes itself.

    It is nested so that Ray pickles it by value: a worker may have no headcount to import it from.
    """

    def describe(
        kind: str | None = None, expected: object = None, payload: tuple[Any, ...] = ()
    ) -> Description:
        import platform
        from importlib.metadata import PackageNotFoundError, version

        found = {"Python": ".".join(platform.python_version_tuple()[:2])}
        for package in ("headcount", "jax", "jaxlib", "optax", "equinox"):
            try:
                found[package] = version(package)
            except PackageNotFoundError:
                found[package] = "missing"
        try:
            from headcount.version import __version__

            found["headcount"] = __version__
        except ImportError:
            pass
        description: Description = {"versions": found, "machine": None}
        if kind is not None and found == expected:
            from headcount.cluster.worker import machine_of_worker, open_payload

            description["machine"] = machine_of_worker(kind)
            open_payload(payload)
        return description

    return describe


def here() -> dict[str, str]:
    """The versions of this process, which every worker must have."""
    return describing()()["versions"]


def difference(there: dict[str, str], ours: dict[str, str]) -> str:
    """How versions differ from ours, in words; empty where they agree.

    >>> difference({"jax": "0.9", "optax": "1"}, {"jax": "0.10", "optax": "1"})
    'expected jax 0.10 as on the driver, got jax 0.9'
    """
    different = [name for name in ours if there[name] != ours[name]]
    theirs, wanted = (", ".join(f"{name} {of[name]}" for name in different) for of in (there, ours))
    return f"expected {wanted} as on the driver, got {theirs}" if different else ""
