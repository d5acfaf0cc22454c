"""Who does the work: nodes that have shown that they can run headcount. No other node gets a pack."""

import time
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

from headcount.cluster.connection import Head
from headcount.cluster.description import Description, describing, difference, here
from headcount.cluster.payload import without_data
from headcount.cluster.reasons import reason_of
from headcount.cluster.worker import train_pack
from headcount.errors import InvalidInput
from headcount.running.events import FileProblem
from headcount.trials.machine import DeviceKind, Machine
from headcount.trials.pack import Pack

PATIENCE = 15.0  # seconds for all nodes to describe themselves, before those that have are enough
MOMENT = 0.5
MAX_FAILURES_IN_A_ROW = 3  # failures of a node, one after the other, before it is left out
MIN_MEMORY = 0.5  # of what packs were planned for: members may fill a part of what there is

Node = dict[str, Any]


class WorkerPool:
    """Workers of one kind, a GPU each or a core each, on the nodes that were found fit for it.

    A node is asked to describe itself when it is first seen. It is fit once it has answered, with the right
    versions and the right device; until then it gets no packs, and after a wrong answer never.
    """

    def __init__(self, kind: DeviceKind, payload: tuple[Any, ...]) -> None:
        self.kind, self.payload = kind, payload
        self.fit: dict[str, Machine] = {}  # the share of one worker
        self.left_out: dict[str, str] = {}
        self.asked: dict[Any, str] = {}
        self.planned_memory = 0
        self._up: dict[str, Node] = {}
        self._failures: Counter[str] = Counter()
        self._tasks: dict[str, Any] = {}
        self._versions, self._head = here(), Head()

    @property
    def workers(self) -> int:
        """How many there are now; nodes come and go."""
        return sum(self.workers_of(node) for node in self.fit)

    @property
    def smallest(self) -> Machine:
        """What packs must fit."""
        return min(self.fit.values(), key=lambda machine: machine.memory)

    @property
    def awaited(self) -> bool:
        """Whether there are nodes that have not answered yet."""
        return not self._up.keys() <= {*self.fit, *self.left_out}

    def workers_of(self, node: str) -> int:
        """How many packs a node can train at a time."""
        return _workers_of(self._up[node], self.kind) if node in self._up else 0

    def look(self, *, patience: float = 0.0) -> list[str]:
        """See who came, who went and who answered; returns what a person should know."""
        if not self._head.answers():
            return []  # asked now, Ray would wait for it and then end this process
        self._up = {node["NodeID"]: node for node in nodes() if _workers_of(node, self.kind)}
        self.fit = {node: machine for node, machine in self.fit.items() if node in self._up}
        known = {*self.fit, *self.left_out, *self.asked.values()}
        for node in self._up:
            if node not in known:
                self.asked[self._ask(node)] = node
        return [line for reference in _ready(self.asked, patience) if (line := self._hear(reference))]

    def leave_out(self, node: str, reason: str) -> str:
        """Give a node no more packs; returns the line that says so."""
        self.fit.pop(node, None)
        self.left_out[node] = reason
        return f"node {self._name(node)} is left out: {reason}"

    def leave_out_smallest(self, reason: str) -> list[str]:
        """Do without the nodes that have the least memory."""
        least = self.smallest.memory
        return [self.leave_out(node, reason) for node in list(self.fit) if self.fit[node].memory == least]

    def note_failure(self, node: str, reason: str) -> str:
        """A fit node has failed: it must describe itself again, unless it has failed too often."""
        self.fit.pop(node, None)
        self._failures[node] += 1
        if self._failures[node] > MAX_FAILURES_IN_A_ROW * max(1, self.workers_of(node)):
            return self.leave_out(node, reason)
        return ""

    def mark_healthy(self, node: str) -> None:
        """A node has done its work."""
        self._failures.pop(node, None)

    def give(self, pack: Pack, node: str, *, keep_models: bool) -> Any:
        """Hand a pack to a node; returns the reference of what comes back."""
        import ray

        if node not in self._tasks:
            task = ray.remote(max_retries=0, **_needs(self.kind))(train_pack)
            self._tasks[node] = task.options(scheduling_strategy=_on(node))
        return self._tasks[node].remote(without_data(pack), self.kind, self.payload, keep_models)

    def refusal(self) -> str:
        """Why nobody can work here."""
        if not self.left_out:
            return "the cluster has no CPU to give: allowed are nodes with one or more"
        node, reason = next(iter(self.left_out.items()))
        return f"no node of the cluster can be used: on {self._name(node)}, {reason}"

    def _ask(self, node: str) -> Any:
        import ray

        ask = ray.remote(max_retries=0, **_needs(self.kind))(describing())
        return ask.options(scheduling_strategy=_on(node)).remote(self.kind, self._versions, self.payload)

    def _hear(self, reference: Any) -> str:
        """Take note of a node's answer; returns the line for a node that is left out."""
        import ray

        node = self.asked.pop(reference)
        try:
            description: Description = _answer(reference)
        except ray.exceptions.RayTaskError as error:
            return self.leave_out(node, f"it cannot run headcount: {reason_of(error)}")
        except ray.exceptions.RayError as error:
            # Lost meanwhile, or its worker was: it is asked again when it is seen again.
            return self.note_failure(node, f"no worker can start there ({type(error).__name__})")
        if wrong := difference(description["versions"], self._versions):
            return self.leave_out(node, wrong)
        return self._take_on(node, description["machine"])

    def _take_on(self, node: str, machine: Machine) -> str:
        shared_by = max(1, self.workers_of(node)) if machine.kind == "cpu" else 1
        machine = replace(machine, memory=machine.memory // shared_by)
        if machine.memory < MIN_MEMORY * self.planned_memory:
            has, needed = (f"{memory / 2**30:,.1f}" for memory in (machine.memory, self.planned_memory))
            return self.leave_out(node, f"a worker has {has} GiB there, and packs were planned for {needed}")
        self.fit[node] = machine
        return ""

    def _name(self, node: str) -> str:
        about = self._up.get(node, {})
        return str(about.get("NodeManagerHostname") or about.get("NodeManagerAddress") or node)


def discover(payload: tuple[Any, ...]) -> Generator[FileProblem, None, WorkerPool]:
    """The GPUs of the cluster or, where it has none that JAX can use, its cores."""
    if any(_workers_of(node, "gpu") for node in nodes()):
        pool = WorkerPool("gpu", payload)
        yield from gathered(pool)
        if pool.fit:
            return pool
        yield FileProblem(f"training on cores, though the cluster has GPUs: {pool.refusal()}")
    pool = WorkerPool("cpu", payload)
    yield from gathered(pool)
    if not pool.fit:
        raise InvalidInput(pool.refusal())
    return pool


def gathered(pool: WorkerPool) -> Generator[FileProblem, None, None]:
    """Go on once all nodes have answered, or some have and the others were waited for."""
    began, told = time.monotonic(), False
    lines = pool.look(patience=MOMENT)
    while pool.awaited and not (pool.fit and time.monotonic() - began > PATIENCE):
        lines += pool.look(patience=MOMENT)
        if not pool.fit and not told and time.monotonic() - began > PATIENCE:
            told = True
            yield FileProblem("no worker of the cluster is free yet: waiting for one")
    if pool.fit:  # where nobody is, the refusal says why
        yield from map(FileProblem, lines)


def nodes() -> list[Node]:
    """The nodes that are up."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _answer(reference: Any) -> Description:
    import ray

    answer: Description = ray.get(reference)
    return answer


def _ready(references: Iterable[Any], patience: float) -> list[Any]:
    import ray

    waited_for = list(references)
    if not waited_for:
        return []
    ready: list[Any] = ray.wait(waited_for, num_returns=len(waited_for), timeout=patience)[0]
    return ready


def _workers_of(node: Node, kind: DeviceKind) -> int:
    cores, cards = (int(node["Resources"].get(name, 0)) for name in ("CPU", "GPU"))
    return min(cores, cards) if kind == "gpu" else cores


def _needs(kind: DeviceKind) -> dict[str, int]:
    return {"num_cpus": 1, "num_gpus": 1 if kind == "gpu" else 0}


def _on(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node, soft=False)
