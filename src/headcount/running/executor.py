"""Runs trials on this machine into a store, and reports events as they happen."""

import contextlib
import os
import queue
import threading
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headcount.engine.train import plan_all, trainer_of
from headcount.results.store import Store
from headcount.trials.machine import Machine, this_machine
from headcount.trials.pack import Pack
from headcount.trials.row import Row
from headcount.trials.trial import Trial


@dataclass(frozen=True)
class Planned:
    """What is about to be done: packs to train, and validation errors of what is finished already."""

    packs: tuple[Pack, ...]
    finished: Mapping[str, float]


@dataclass(frozen=True)
class Advanced:
    """A pack made a chunk of steps; `errors` are the members' best validation errors so far."""

    pack: Pack
    step: int
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Finished:
    """A pack is done and its rows are on disk."""

    pack: Pack
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class FileProblem:
    """A file that could not be used; the run goes on without it."""

    line: str


@dataclass(frozen=True)
class WorkerCount:
    """How many workers a cluster has, and how many packs are with them."""

    workers: int
    in_flight: int


@dataclass(frozen=True)
class GivenUp:
    """A pack that failed too often; the run goes on without it."""

    pack: Pack
    reason: str

    @property
    def line(self) -> str:
        """One line that names the pack by its grid point."""
        trials = self.pack.trials
        task, heads = trials[0].task.name, sorted({trial.architecture.heads for trial in trials})
        members = f"{len(trials)} member{'s' if len(trials) > 1 else ''}"
        point = f"{task}, h = {', '.join(map(str, heads))}, T = {self.pack.length}"
        return f"pack of {members} ({point}) is given up: {self.reason}"


Event = Planned | Advanced | Finished | FileProblem | WorkerCount | GivenUp


MAX_SHARE_OF_TIME_SAVING = 0.1
PACKS_AHEAD = 6  # that are compiled at a time, and whose data lies on the GPU

Events = queue.SimpleQueue[Event | BaseException | None]


def run(
    trials: Iterable[Trial], store: Store, *, machine: Machine | None = None, keep_models: bool = False
) -> Generator[Event, None, None]:
    """Train what the store does not hold yet.

    With `keep_models` the weights of every member are kept too, and no trial is finished without them.

    The work happens in a thread of its own, which is the only writer of the store's folder for as long as
    it runs; `Locked` is raised where somebody else is. Closing the generator, or Ctrl-C, ends the thread and
    waits for it: the current chunk is finished first, about a second of work on a CPU and three on a GPU, or
    the program that is being compiled. A second Ctrl-C does not wait; the folder stays locked until the
    thread has ended. Killed at any moment, the next run goes on from the last checkpoint: one chunk back at
    most, or a few where a checkpoint takes long to write.
    """
    events: Events = queue.SimpleQueue()
    stop = threading.Event()
    worker = threading.Thread(
        target=_work,
        args=(tuple(trials), store, machine, events, stop, keep_models),
        name="headcount-run",
        daemon=True,
    )
    worker.start()
    try:
        while (event := _next(events)) is not None:
            if isinstance(event, BaseException):
                raise event
            yield event
    finally:
        stop.set()
        worker.join()


def _next(events: Events) -> Event | BaseException | None:
    while True:
        try:
            return events.get(timeout=0.1)
        except queue.Empty:
            continue


def _work(
    trials: tuple[Trial, ...],
    store: Store,
    machine: Machine | None,
    events: Events,
    stop: threading.Event,
    keep_models: bool,
) -> None:
    try:
        with store.writing():
            machine = machine or this_machine()
            planned = left_to_do(trials, plan_all(trials, machine), store, keep_models=keep_models)
            _report_problems(store, events)
            events.put(planned)
            ahead = CompilingAhead(planned.packs, machine)
            try:
                for place, pack in enumerate(planned.packs):
                    if stop.is_set():
                        break
                    ahead.wait_for(place)
                    _train(pack, store, machine, events, stop, keep_models)
            finally:
                ahead.finish()
        events.put(None)
    except BaseException as error:
        events.put(error)


def left_to_do(trials: Iterable[Trial], packs: Iterable[Pack], store: Store, *, keep_models: bool) -> Planned:
    """Make the store ready, and leave out of the packs what it holds already."""
    finished = store.prepare(models=keep_models)
    if keep_models:
        kept = {trial.id for trial in trials if trial.id in finished and store.has_kept(trial)}
        finished = {trial: error for trial, error in finished.items() if trial in kept}
    return Planned(tuple(left for pack in packs if (left := pack.without(finished))), finished)


class CompilingAhead:
    """Makes the programs of the next packs ready while one trains: a GPU leaves the processor idle.

    On a CPU it keeps the cores busy while the first program is compiled, which takes one of them.
    """

    def __init__(self, packs: Sequence[Pack], machine: Machine) -> None:
        self._packs, self._machine = packs, machine
        cores = machine.lanes if machine.kind == "cpu" else os.cpu_count() or 1
        self._many = 0 if machine.kind == "cpu" and cores == 1 else min(PACKS_AHEAD, cores)
        self._begun: list[threading.Thread] = []

    def wait_for(self, place: int) -> None:
        """Return when the pack in this place is ready, with the compiling of those after it under way."""
        for pack in self._packs[len(self._begun) : place + self._many]:
            thread = threading.Thread(
                target=self._make_ready, args=(pack,), name="headcount-compile", daemon=True
            )
            thread.start()
            self._begun.append(thread)
        if self._many:
            self._begun[place].join()

    def finish(self) -> None:
        """Return when no program is being compiled."""
        for thread in self._begun:
            thread.join()

    def _make_ready(self, pack: Pack) -> None:
        with contextlib.suppress(Exception):  # what is wrong with the pack is raised when its turn comes
            trainer_of(pack.trials[0]).train(pack, self._machine).compile()


def _train(
    pack: Pack,
    store: Store,
    machine: Machine,
    events: Events,
    stop: threading.Event,
    keep_models: bool,
) -> None:
    saved = store.load(pack)
    _report_problems(store, events)
    state, seconds = (None, 0.0) if saved is None else saved
    began = time.perf_counter() - seconds
    training = trainer_of(pack.trials[0]).train(pack, machine, state=state)
    saving = Pace(MAX_SHARE_OF_TIME_SAVING)
    while not training.finished:
        if stop.is_set():
            return
        training.chunk()
        if not training.finished and saving.due:
            with saving:
                store.save(pack, training.state, seconds=time.perf_counter() - began)
        events.put(Advanced(pack, training.step, tuple(training.errors.tolist())))
    outcomes = training.outcomes()
    each = (time.perf_counter() - began) / len(pack.trials)
    rows = [Row.of(*pair, machine, seconds=each) for pair in zip(pack.trials, outcomes, strict=True)]
    if keep_models:
        for trial, outcome in zip(pack.trials, outcomes, strict=True):
            store.keep(trial, outcome)
    store.write(pack, rows)
    events.put(Finished(pack, tuple(rows)))


class Pace:
    """Something to be done as often as takes up no more than a share of the time."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.took = 0.0
        self.ended = time.perf_counter()

    @property
    def due(self) -> bool:
        """Whether enough time has passed since the last."""
        return self.took <= self.share * (time.perf_counter() - self.ended)

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.ended = time.perf_counter()
        self.took = self.ended - self.began


def _report_problems(store: Store, events: Events) -> None:
    while store.problems:
        events.put(FileProblem(store.problems.pop(0)))
