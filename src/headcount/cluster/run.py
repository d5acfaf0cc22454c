"""Runs trials on a Ray cluster into a store on this machine, with the same events as a local run."""

import math
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any

from headcount.cluster.payload import Payload
from headcount.cluster.worker import DeviceUnavailable, Trained, reason_of
from headcount.cluster.worker_pool import WorkerPool, discover
from headcount.engine.train import plan_all
from headcount.errors import ClusterLost
from headcount.results.store import Store
from headcount.running.executor import Event, FileProblem, Finished, GivenUp, WorkerCount, left_to_do
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, TooLarge
from headcount.trials.trial import Trial
from headcount.version import versions

PACK_SECONDS = 60.0
MIN_SECONDS = 1.0
MIN_PACKS = 4  # per worker: with fewer, workers would idle while the last packs train
IN_FLIGHT = 2  # packs per worker: one in training and one queued
MAX_FAILURES = 3
REFRESH_SECONDS, POLL_SECONDS = 2.0, 0.5  # between updates of the nodes, and between polls for results


def run_on_ray(
    trials: Iterable[Trial], store: Store, *, keep_models: bool = False, pack_seconds: float = PACK_SECONDS
) -> Generator[Event, None, None]:
    """Train what the store does not hold yet on the cluster that this process is connected to.

    A Ray task is a pack of about `pack_seconds`. Its rows come back through the object store and are written
    here, so no shared file system is needed. Closing the generator cancels the packs in flight; a run that
    is killed loses those and nothing else.
    """
    import ray

    trials = tuple(trials)
    payload = (ray.put(Payload.of(trials).packed()),)
    pool = yield from discover(payload)
    packs = yield from plan_for_pool(trials, pool, pack_seconds)
    with store.writing():
        planned = left_to_do(trials, packs, store, keep_models=keep_models)
        while store.problems:
            yield FileProblem(store.problems.pop(0))
        yield planned
        yield from _Dispatcher(pool, store, keep_models).run(planned.packs)


def plan_for_pool(
    trials: tuple[Trial, ...], pool: WorkerPool, pack_seconds: float
) -> Generator[FileProblem, None, list[Pack]]:
    """Packs for the nodes that can hold every member; the others are excluded."""
    while True:
        try:
            packs = plan_for(trials, pool.smallest, pool.workers, pack_seconds)
        except TooLarge as error:
            if len({machine.memory for machine in pool.healthy.values()}) == 1:
                raise
            yield from map(FileProblem, pool.exclude_smallest(str(error)))
        else:
            pool.planned_memory = pool.smallest.memory
            return packs


def plan_for(trials: tuple[Trial, ...], machine: Machine, workers: int, pack_seconds: float) -> list[Pack]:
    """Packs that fit a worker and keep all workers busy; the same for the same trials and cluster."""
    # All cores compile and train at the same time; a pack on a GPU has the GPU to itself.
    lanes = workers if machine.kind == "cpu" else 1
    machine = replace(machine, lanes=lanes, pack_seconds=pack_seconds)
    packs = plan_all(trials, machine)
    while len(packs) < min(MIN_PACKS * workers, len(trials)) and pack_seconds > MIN_SECONDS:
        pack_seconds = max(MIN_SECONDS, pack_seconds / 2)
        packs = plan_all(trials, replace(machine, pack_seconds=pack_seconds))
    return packs


@dataclass(frozen=True)
class Failure:
    """Why a pack failed, in one line. A failure of its node does not count against the pack."""

    reason: str
    of_node: bool = False


class _Dispatcher:
    """Sends packs to nodes, a bounded number at a time, and retries each up to MAX_FAILURES times."""

    def __init__(self, pool: WorkerPool, store: Store, keep_models: bool) -> None:
        self.pool, self.store, self.keep_models = pool, store, keep_models
        self.waiting: deque[Pack] = deque()
        self.in_flight: dict[Any, tuple[Pack, str]] = {}
        self.load: Counter[str] = Counter()
        self.failed_on: dict[str, list[str]] = {}
        self.workers, self.refreshed = 0, -math.inf

    def run(self, packs: Iterable[Pack]) -> Generator[Event, None, None]:
        """The events until no pack is left."""
        self.waiting.extend(packs)
        try:
            while self.waiting or self.in_flight:
                yield from self._refresh()
                self._submit()
                yield WorkerCount(self.workers, len(self.in_flight))
                for reference in self._finished():
                    yield from self._receive(reference)
            yield WorkerCount(self.workers, 0)
        except ClusterLost:
            self.in_flight.clear()  # no cluster is left to cancel them on
            raise
        finally:
            self._cancel()

    def _refresh(self) -> Generator[FileProblem, None, None]:
        """Update the pool and count its workers, every REFRESH_SECONDS."""
        if time.monotonic() - self.refreshed < REFRESH_SECONDS:
            return
        yield from map(FileProblem, self.pool.refresh())
        before, self.workers, self.refreshed = self.workers, self.pool.workers, time.monotonic()
        if before and not self.workers:
            yield FileProblem("no worker is left: waiting for one")

    def _submit(self) -> None:
        """Send packs to the least loaded nodes with room; a node that failed a pack is its last choice."""
        kept_back = []
        while self.waiting and (free := self._with_room()):
            pack = self.waiting.popleft()
            if allowed := [node for node in free if self._may_train(node, pack)]:
                node = min(allowed, key=lambda node: self.load[node] / self.pool.workers_of(node))
                self.in_flight[self.pool.submit(pack, node, keep_models=self.keep_models)] = pack, node
                self.load[node] += 1
            else:
                kept_back.append(pack)
        self.waiting.extendleft(reversed(kept_back))

    def _with_room(self) -> list[str]:
        """Nodes that take another pack; the last packs go to idle workers alone, and none is queued."""
        each = IN_FLIGHT if len(self.waiting) > self.workers else 1
        return [node for node in self.pool.healthy if self.load[node] < each * self.pool.workers_of(node)]

    def _may_train(self, node: str, pack: Pack) -> bool:
        failed_on = self.failed_on.get(pack.id, ())
        return node not in failed_on or self.pool.healthy.keys() <= set(failed_on)

    def _finished(self) -> list[Any]:
        """At most one result; none after POLL_SECONDS, so that Ctrl-C is handled in between."""
        import ray

        if self.in_flight:
            return list(ray.wait(list(self.in_flight), timeout=POLL_SECONDS)[0])
        time.sleep(POLL_SECONDS)
        return []

    def _receive(self, reference: Any) -> Generator[Event, None, None]:
        """Write the rows of a pack, or retry it."""
        pack, node = self.in_flight.pop(reference)
        self.load[node] -= 1
        trained = fetched(reference, pack)
        if isinstance(trained, Trained):
            self.pool.mark_healthy(node)
            for trial, file in zip(pack.trials, trained.models, strict=self.keep_models):
                self.store.keep_file(trial, file)
            self.store.write(pack, list(trained.rows))
            yield Finished(pack, trained.rows)
        elif trained.of_node:
            self.waiting.appendleft(pack)
            if line := self.pool.note_failure(node, trained.reason):
                yield FileProblem(line)
        else:
            self.failed_on.setdefault(pack.id, []).append(node)
            if len(self.failed_on[pack.id]) < MAX_FAILURES:
                self.waiting.append(pack)
            else:
                yield GivenUp(pack, trained.reason)

    def _cancel(self) -> None:
        import ray

        for reference in self.in_flight:
            ray.cancel(reference, force=True)


def fetched(reference: Any, pack: Pack) -> Trained | Failure:
    """The result of a pack, or why it failed."""
    import ray

    try:
        trained: Trained = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return Failure(reason_of(error), of_node=isinstance(error.cause, DeviceUnavailable))
    except ray.exceptions.OutOfMemoryError:
        return Failure("its worker was out of memory")
    except ray.exceptions.TaskUnschedulableError:
        return Failure("its node left the cluster before it began", of_node=True)
    except ray.exceptions.RayError as error:
        return Failure(f"its worker or its node was lost ({type(error).__name__})")
    if [row.trial for row in trained.rows] != [trial.id for trial in pack.trials]:
        return Failure("its worker returned the rows of other trials")
    if others := {row.versions for row in trained.rows} - {versions()}:  # changed while it ran
        return Failure(f"expected {versions()} as on the driver, got {others.pop()}", of_node=True)
    return trained
