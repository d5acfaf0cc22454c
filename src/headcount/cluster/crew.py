"""Who does the work: the nodes of a cluster, what their devices hold, and whether their versions agree."""

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headcount.cluster.worker import train_pack
from headcount.engine import Machine, Pack, Problem
from headcount.engine.machine import Kind
from headcount.errors import InvalidInput

PATIENCE = 15.0  # seconds for all nodes to describe themselves, before those that have are enough

Description = dict[str, Any]


def describing() -> Callable[..., Description]:
    """The function by which a process describes itself.

    It is made in here so that it travels whole: a worker may have no headcount to find it in.
    """

    def describe(
        kind: str | None = None, expected: object = None, luggage: tuple[Any, ...] = ()
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
        description: Description = {"host": platform.node(), "versions": found, "machine": None}
        if kind is not None and found == expected:
            from headcount.cluster.worker import machine_of_worker, open_luggage

            open_luggage(luggage)
            description["machine"] = machine_of_worker(kind)
        return description

    return describe


@dataclass(frozen=True)
class Crew:
    """Workers of one kind: a GPU each, or a core each. `machine` is the smallest of them, to plan for."""

    kind: Kind
    machine: Machine
    luggage: tuple[Any, ...]

    @property
    def workers(self) -> int:
        """How many there are now; nodes come and go."""
        return sum(_workers_of(node, self.kind) for node in nodes())

    def give(self, pack: Pack, *, keep_models: bool) -> Any:
        """Hand a pack to whoever is free first; returns the reference of what comes back."""
        return self._task.remote(pack, self.kind, self.luggage, keep_models)

    @cached_property
    def _task(self) -> Any:
        import ray

        return ray.remote(max_retries=0, **_needs(self.kind))(train_pack)


def nodes() -> list[dict[str, Any]]:
    """The nodes that are up."""
    import ray

    return [node for node in ray.nodes() if node["Alive"]]


def _workers_of(node: dict[str, Any], kind: Kind) -> int:
    cores, cards = (int(node["Resources"].get(name, 0)) for name in ("CPU", "GPU"))
    return min(cores, cards) if kind == "gpu" else cores


def _needs(kind: Kind) -> dict[str, int]:
    return {"num_cpus": 1, "num_gpus": 1 if kind == "gpu" else 0}


def hire(luggage: tuple[Any, ...]) -> Generator[Problem, None, Crew]:
    """The GPUs of the cluster or, where it has none that JAX can use, its cores."""
    if any(_workers_of(node, "gpu") for node in nodes()):
        crew = yield from _hire("gpu", luggage)
        if crew.machine.kind == "gpu":
            return crew
        yield Problem("the cluster has GPUs, but JAX finds none on its workers: training on cores")
    return (yield from _hire("cpu", luggage))


def _hire(kind: Kind, luggage: tuple[Any, ...]) -> Generator[Problem, None, Crew]:
    able = {node["NodeID"]: _workers_of(node, kind) for node in nodes() if _workers_of(node, kind)}
    if not able:
        raise InvalidInput("the cluster has no CPU to give: allowed are nodes with one or more")
    machines = []
    for node, description in (yield from _described(kind, able, luggage)).items():
        machine = description["machine"]
        share = machine.memory // (able[node] if machine.kind == "cpu" else 1)
        machines.append(replace(machine, memory=share))
    # One that is not of the kind comes first: it cannot do its share.
    smallest = min(machines, key=lambda machine: (machine.kind == kind, machine.memory))
    return Crew(kind, smallest, luggage)


def _described(
    kind: Kind, able: dict[str, int], luggage: tuple[Any, ...]
) -> Generator[Problem, None, dict[str, Description]]:
    """What a worker on every node says of itself; all must run what this process runs."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = describing()()["versions"]
    ask = ray.remote(max_retries=2, **_needs(kind))(describing())
    asked = {
        ask.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(
            kind, here, luggage
        ): node
        for node in able
    }
    found: dict[str, Description] = {}
    began, told = time.monotonic(), False
    while asked and not (found and time.monotonic() - began > PATIENCE):
        for reference in ray.wait(list(asked), num_returns=1, timeout=0.5)[0]:
            node = asked.pop(reference)
            description = _answer(reference, others=bool(found or asked))
            if description is not None:
                found[node] = description
                _check(description, here)
        if not found and not told and time.monotonic() - began > PATIENCE:
            told = True
            yield Problem("no worker of the cluster is free yet: waiting for one")
    return found


def _answer(reference: Any, *, others: bool) -> Description | None:
    """What a node said of itself; None where it was lost meanwhile and there are others."""
    import ray

    try:
        description: Description = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, Exception) else error
        raise InvalidInput(f"a worker cannot start: {type(cause).__name__}: {cause}") from error
    except ray.exceptions.RayError as error:
        if others:
            return None
        raise InvalidInput(f"no worker of the cluster can start: {type(error).__name__}") from error
    return description


def _check(description: Description, here: dict[str, str]) -> None:
    there = description["versions"]
    if different := [name for name in here if there[name] != here[name]]:
        theirs, ours = (", ".join(f"{name} {of[name]}" for name in different) for of in (there, here))
        raise InvalidInput(f"node {description['host']} has {theirs}; allowed is {ours}, as here")
