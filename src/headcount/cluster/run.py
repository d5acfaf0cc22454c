"""Runs trials on a Ray cluster into a store on this machine, with the same events as a run without one."""

import math
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable
from dataclasses import dataclass, replace
from typing import Any

from headcount.cluster.payload import Payload
from headcount.cluster.reasons import reason_of
from headcount.cluster.worker import Trained, Unfit
from headcount.cluster.worker_pool import WorkerPool, discover
from headcount.engine.trainers import plan_all
from headcount.errors import ClusterLost
from headcount.results.store import Store
from headcount.running.events import Event, FileProblem, Finished, GivenUp, Staffed
from headcount.running.executor import left_to_do
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, TooLarge
from headcount.trials.trial import Trial
from headcount.version import versions

PACK_SECONDS = 60.0
MIN_SECONDS = 1.0
ROUNDS = 4  # packs for each worker, at least: the last ones leave nobody idle for long
IN_FLIGHT = 2  # packs for each worker: one under way and the next
MAX_FAILURES = 3
LOOK_EVERY, MOMENT = 2.0, 0.5  # seconds between looks at the nodes, and for a pack to come back


def run_on_ray(
    trials: Iterable[Trial], store: Store, *, keep_models: bool = False, pack_seconds: float = PACK_SECONDS
) -> Generator[Event, None, None]:
    """Train what the store does not hold yet on the cluster that this process is connected to.

    A task is a pack of about `pack_seconds`. Its rows come back through the object store and are written
    here, so that no file system is shared. Closing the generator cancels what is in flight; killed at any
    moment, the next run has lost nothing else.
    """
    import ray

    trials = tuple(trials)
    payload = (ray.put(Payload.of(trials).packed()),)
    pool = yield from discover(payload)
    packs = yield from plan_for_crew(trials, pool, pack_seconds)
    planned = left_to_do(trials, packs, store, keep_models=keep_models)
    yield from _problems(store)
    yield planned
    yield from _Flight(pool, store, keep_models).of(planned.packs)


def plan_for_crew(
    trials: tuple[Trial, ...], pool: WorkerPool, pack_seconds: float
) -> Generator[FileProblem, None, list[Pack]]:
    """Packs for the nodes that can hold every member; the others are left out."""
    while True:
        try:
            packs = plan_for(trials, pool.smallest, pool.workers, pack_seconds)
        except TooLarge as error:
            if len({machine.memory for machine in pool.fit.values()}) == 1:
                raise
            yield from map(FileProblem, pool.leave_out_smallest(str(error)))
        else:
            pool.planned_memory = pool.smallest.memory
            return packs


def plan_for(trials: tuple[Trial, ...], machine: Machine, workers: int, pack_seconds: float) -> list[Pack]:
    """Packs that fit a worker and keep all of them busy; the same for the same trials and cluster."""
    # What one core compiles and trains, the others do meanwhile; a pack on a GPU has it to itself.
    lanes = workers if machine.kind == "cpu" else 1
    machine = replace(machine, lanes=lanes, pack_seconds=pack_seconds)
    packs = plan_all(trials, machine)
    while len(packs) < min(ROUNDS * workers, len(trials)) and pack_seconds > MIN_SECONDS:
        pack_seconds = max(MIN_SECONDS, pack_seconds / 2)
        packs = plan_all(trials, replace(machine, pack_seconds=pack_seconds))
    return packs


@dataclass(frozen=True)
class Failure:
    """Why a pack came to nothing, in a line. What a node is to blame for does not count against the pack."""

    reason: str
    of_node: bool = False


class _Flight:
    """Packs on their way: a bounded number at a time, each tried again until it has failed too often."""

    def __init__(self, pool: WorkerPool, store: Store, keep_models: bool) -> None:
        self.pool, self.store, self.keep_models = pool, store, keep_models
        self.waiting: deque[Pack] = deque()
        self.given: dict[Any, tuple[Pack, str]] = {}
        self.load: Counter[str] = Counter()
        self.failed_on: dict[str, list[str]] = {}
        self.workers, self.looked = 0, -math.inf

    def of(self, packs: Iterable[Pack]) -> Generator[Event, None, None]:
        """Everything that happens until no pack is left."""
        self.waiting.extend(packs)
        try:
            while self.waiting or self.given:
                yield from self._look()
                self._give()
                yield Staffed(self.workers, len(self.given))
                for reference in self._back():
                    yield from self._settle(reference)
            yield Staffed(self.workers, 0)
        except ClusterLost:
            self.given.clear()  # nobody is there to be told
            raise
        finally:
            self._cancel()

    def _look(self) -> Generator[FileProblem, None, None]:
        """Ask new nodes and count the workers, now and then."""
        if time.monotonic() - self.looked < LOOK_EVERY:
            return
        yield from map(FileProblem, self.pool.look())
        before, self.workers, self.looked = self.workers, self.pool.workers, time.monotonic()
        if before and not self.workers:
            yield FileProblem("no worker is left: waiting for one")

    def _give(self) -> None:
        """Packs to whoever has room, and to nobody who failed one before while there are others."""
        kept_back = []
        while self.waiting and (free := self._with_room()):
            pack = self.waiting.popleft()
            if others := [node for node in free if self._may_have(node, pack)]:
                node = min(others, key=lambda node: self.load[node] / self.pool.workers_of(node))
                self.given[self.pool.give(pack, node, keep_models=self.keep_models)] = pack, node
                self.load[node] += 1
            else:
                kept_back.append(pack)
        self.waiting.extendleft(reversed(kept_back))

    def _with_room(self) -> list[str]:
        """The last packs go to workers who are idle: none waits behind another while somebody is."""
        each = IN_FLIGHT if len(self.waiting) > self.workers else 1
        return [node for node in self.pool.fit if self.load[node] < each * self.pool.workers_of(node)]

    def _may_have(self, node: str, pack: Pack) -> bool:
        failed_on = self.failed_on.get(pack.id, ())
        return node not in failed_on or self.pool.fit.keys() <= set(failed_on)

    def _back(self) -> list[Any]:
        """One that has come back, or none for a moment: Ctrl-C is answered in between."""
        import ray

        if self.given:
            ready: list[Any] = ray.wait(list(self.given), timeout=MOMENT)[0]
            return ready
        time.sleep(MOMENT)
        return []

    def _settle(self, reference: Any) -> Generator[Event, None, None]:
        """Write what came back, or have it done again."""
        pack, node = self.given.pop(reference)
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
            yield from self._again(pack, node, trained.reason)

    def _again(self, pack: Pack, node: str, reason: str) -> Generator[GivenUp, None, None]:
        self.failed_on.setdefault(pack.id, []).append(node)
        if len(self.failed_on[pack.id]) < MAX_FAILURES:
            self.waiting.append(pack)
        else:
            yield GivenUp(pack, reason)

    def _cancel(self) -> None:
        import ray

        for reference in self.given:
            ray.cancel(reference, force=True)


def fetched(reference: Any, pack: Pack) -> Trained | Failure:
    """What a worker made of a pack, or why it made nothing of it."""
    import ray

    try:
        trained: Trained = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return Failure(reason_of(error), of_node=isinstance(error.cause, Unfit))
    except ray.exceptions.OutOfMemoryError:
        return Failure("its worker was out of memory")
    except ray.exceptions.TaskUnschedulableError:
        return Failure("its node went before it began", of_node=True)
    except ray.exceptions.RayError as error:
        return Failure(f"its worker or its node was lost ({type(error).__name__})")
    if [row.trial for row in trained.rows] != [trial.id for trial in pack.trials]:
        return Failure("its worker gave back other trials than it was given")
    if others := {row.versions for row in trained.rows} - {versions()}:  # changed while it ran
        return Failure(f"it has {others.pop()}; allowed is {versions()}, as here", of_node=True)
    return trained


def _problems(store: Store) -> Generator[FileProblem, None, None]:
    while store.problems:
        yield FileProblem(store.problems.pop(0))
