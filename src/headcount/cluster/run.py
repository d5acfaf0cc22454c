"""Runs trials on a Ray cluster into a store on this machine, with the same events as a run without one."""

import math
import time
from collections import Counter, deque
from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import Any

from headcount.cluster.belongings import Belongings
from headcount.cluster.crew import Crew, hire
from headcount.cluster.worker import Trained
from headcount.engine import Event, Finished, GivenUp, Pack, Problem, Staffed, Store, Trial
from headcount.engine.executor import left_to_do
from headcount.engine.kinds import plan_all
from headcount.engine.machine import versions

PACK_SECONDS = 60.0
LEAST_SECONDS = 1.0
ROUNDS = 4  # packs for each worker, at least: the last ones leave nobody idle for long
IN_FLIGHT = 2  # packs for each worker: one under way and the next
MOST_FAILURES = 3
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
    luggage = (ray.put(Belongings.of(trials).packed()),)
    crew = yield from hire(luggage)
    packs = plan_for(trials, crew, pack_seconds)
    planned = left_to_do(trials, packs, store, keep_models=keep_models)
    yield from _problems(store)
    yield planned
    yield from _Flight(crew, store, keep_models).of(planned.packs)


def plan_for(trials: tuple[Trial, ...], crew: Crew, pack_seconds: float) -> list[Pack]:
    """Packs that fit a worker and keep all of them busy; the same for the same trials and cluster."""
    workers = max(1, crew.workers)
    # What one core compiles and trains, the others do meanwhile; a pack on a GPU has it to itself.
    lanes = workers if crew.kind == "cpu" else 1
    machine = replace(crew.machine, lanes=lanes, pack_seconds=pack_seconds)
    packs = plan_all(trials, machine)
    while len(packs) < min(ROUNDS * workers, len(trials)) and pack_seconds > LEAST_SECONDS:
        pack_seconds = max(LEAST_SECONDS, pack_seconds / 2)
        packs = plan_all(trials, replace(machine, pack_seconds=pack_seconds))
    return packs


class _Flight:
    """Packs on their way: a bounded number at a time, each tried again until it has failed too often."""

    def __init__(self, crew: Crew, store: Store, keep_models: bool) -> None:
        self.crew, self.store, self.keep_models = crew, store, keep_models
        self.waiting: deque[Pack] = deque()
        self.given: dict[Any, Pack] = {}
        self.failures: Counter[str] = Counter()
        self.workers, self.looked = 0, -math.inf

    def of(self, packs: Iterable[Pack]) -> Generator[Event, None, None]:
        """Everything that happens until no pack is left."""
        import ray

        self.waiting.extend(packs)
        try:
            while self.waiting or self.given:
                yield from self._look()
                self._give()
                yield Staffed(self.workers, len(self.given))
                for reference in self._back():
                    yield from self._settle(reference)
            yield Staffed(self.workers, 0)
        finally:
            for reference in self.given:
                ray.cancel(reference, force=True)

    def _look(self) -> Generator[Problem, None, None]:
        """Count the workers, now and then."""
        if time.monotonic() - self.looked < LOOK_EVERY:
            return
        before, self.workers, self.looked = self.workers, self.crew.workers, time.monotonic()
        if before and not self.workers:
            yield Problem("no worker is left: waiting for one")

    def _give(self) -> None:
        while self.waiting and len(self.given) < IN_FLIGHT * self.workers:
            pack = self.waiting.popleft()
            self.given[self.crew.give(pack, keep_models=self.keep_models)] = pack

    def _back(self) -> list[Any]:
        """One that has come back, or none for a moment: Ctrl-C is answered in between."""
        import ray

        if self.given:
            ready: list[Any] = ray.wait(list(self.given), timeout=MOMENT)[0]
            return ready
        time.sleep(MOMENT)
        return []

    def _settle(self, reference: Any) -> Generator[Finished | GivenUp, None, None]:
        """Write what came back, or have it done again."""
        pack = self.given.pop(reference)
        trained = fetched(reference, pack)
        if isinstance(trained, Trained):
            for trial, file in zip(pack.trials, trained.models, strict=self.keep_models):
                self.store.keep_file(trial, file)
            self.store.write(pack, list(trained.rows))
            yield Finished(pack, trained.rows)
            return
        self.failures[pack.id] += 1
        if self.failures[pack.id] < MOST_FAILURES:
            self.waiting.append(pack)
        else:
            yield GivenUp(pack, trained)


def fetched(reference: Any, pack: Pack) -> Trained | str:
    """What a worker made of a pack, or why it made nothing of it, in a line."""
    import ray

    try:
        trained: Trained = ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause if isinstance(error.cause, BaseException) else error
        return f"{type(cause).__name__}: {' '.join(str(cause).split())[:300]}"
    except ray.exceptions.OutOfMemoryError:
        return "its worker was out of memory"
    except ray.exceptions.RayError as error:
        return f"its worker or its node was lost ({type(error).__name__})"
    if [row.trial for row in trained.rows] != [trial.id for trial in pack.trials]:
        return "its worker gave back other trials than it was given"
    if others := {row.versions for row in trained.rows} - {versions()}:  # a node that came later
        return f"its worker has {others.pop()}; allowed is {versions()}, as here"
    return trained


def _problems(store: Store) -> Generator[Problem, None, None]:
    while store.problems:
        yield Problem(store.problems.pop(0))
