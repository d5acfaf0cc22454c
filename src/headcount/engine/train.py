"""A pack from start to finish, one chunk at a time, and the trainer of each type of task."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from headcount.engine.data import Data, data_of
from headcount.engine.lanes import Program, compiled, for_each_member, on_all_devices, stack
from headcount.engine.member import Conditions, Member, Slicing, advance, predict, sample_costs, start
from headcount.engine.rounding import Extent, enlarged
from headcount.models.architecture import Architecture
from headcount.models.batches import launch_of
from headcount.models.padding import pad, unpad
from headcount.models.transformer import Padding, Transformer
from headcount.trials.machine import Machine, this_machine
from headcount.trials.pack import Pack, TaskPack, plan
from headcount.trials.row import Outcome
from headcount.trials.sizes import are_rounded, array_sizes
from headcount.trials.task_choice import Task, TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import TaskTrial, Trial

# A program, what each member gives it, and what all of them share.
Call = tuple[Program, tuple[Any, ...], tuple[Any, ...]]

CHUNK_SECONDS = {"cpu": 1.0, "gpu": 3.0}

# A pack that sees this many tokens or more repays on a GPU the longer compiling of tuned kernels; a little
# above the break-even that benchmarks/scale.py measures, so that a short pack shows its first errors sooner.
# Where tokens attend to tokens there is more to gain with each.
TOKENS_WORTH_TUNING, ATTENDING_TOKENS_WORTH_TUNING = 1.4e10, 1e9

MEASURED_ON = "NVIDIA"  # where our kernels are known to be faster (benchmarks/kernels.py)

# A slice of the batch whose hidden features are this many numbers stays in a core's cache.
CACHED_FEATURES = 1 << 17


class ChunkByChunk(ABC):
    """What trains a pack a chunk at a time, whatever its members are; `state` is all that must be kept."""

    machine: Machine
    training: Training
    state: Any
    tuned: bool
    _periods: int = 1

    @property
    def step(self) -> int:
        """How many steps every member has made."""
        return int(np.max(self.state.step))

    @property
    def next_stop(self) -> int:
        """The step before which nobody needs to look: the last one, unless something is measured earlier."""
        return self.training.steps

    @property
    def finished(self) -> bool:
        """Whether all steps are made."""
        return self.step >= self.training.steps

    def compile(self) -> float:
        """Make its programs ready without running them; returns the seconds it took."""
        began = time.perf_counter()
        compiled(*self._advancing(0), self.machine, tuned=self.tuned)
        compiled(*self._judging, self.machine)
        return time.perf_counter() - began

    def chunk(self) -> None:
        """Advance every member by about `CHUNK_SECONDS` of work."""
        periods = min(self._periods, self._left)
        began = time.perf_counter()
        self.state = self._advance(periods)
        seconds = (time.perf_counter() - began) / periods
        self._periods = max(1, round(CHUNK_SECONDS[self.machine.kind] / seconds))

    def finish(self) -> None:
        """Make all steps that are left, with as few stops as possible."""
        while not self.finished:
            self.state = self._advance(self._left)

    @property
    def _left(self) -> int:
        return (self.next_stop - self.step) // self.training.evaluate_every

    def _advance(self, periods: int) -> Any:
        return jax.block_until_ready(
            for_each_member(*self._advancing(periods), self.machine, tuned=self.tuned)
        )

    @property
    @abstractmethod
    def errors(self) -> Float[np.ndarray, " member"]:
        """The error of each member so far."""

    @abstractmethod
    def outcomes(self) -> list[Outcome]:
        """What became of each member."""

    @abstractmethod
    def _advancing(self, periods: int) -> Call:
        """The program that advances members, with what it is given."""

    @property
    @abstractmethod
    def _judging(self) -> Call:
        """The program that judges them in the end."""


class PackTraining(ChunkByChunk):
    """The training of one pack; `state` is all that must be kept to go on after any chunk.

    On a GPU one vmapped program advances all members at once. On a CPU each core advances one member at
    a time with a program of its own: small matrices that stay in cache, and no core waits for another.
    """

    def __init__(self, pack: TaskPack, machine: Machine, *, state: Member | None = None) -> None:
        self.pack = pack
        self.machine = machine
        self.training = replace(pack.trials[0].training, data_seed=0)
        data, datasets = data_of(pack.trials)
        extent = None
        if are_rounded(pack.trials[0]):
            extent = Extent.of(data)
            data = enlarged(data, array_sizes(pack.trials[0]), pack.architecture)
        self.data: Data = on_all_devices(jax.device_put(data), machine)
        self.conditions = stack(
            Conditions.of(trial, padding=Padding.of(trial.architecture), dataset=dataset, extent=extent)
            for trial, dataset in zip(pack.trials, datasets, strict=True)
        )
        self.state = initial_state(pack) if state is None else state
        sequences = len(pack.trials) * self.training.steps * self.training.batch_size
        attending = pack.architecture.layers > 1
        worth = ATTENDING_TOKENS_WORTH_TUNING if attending else TOKENS_WORTH_TUNING
        self.tuned = sequences * self.length >= worth

    @property
    def length(self) -> int:
        """Tokens in a sequence of the arrays."""
        return self.data.train.x.shape[2]

    @property
    def errors(self) -> Float[np.ndarray, " member"]:
        """The best validation error of each member so far."""
        return np.asarray(self.state.best_error)

    def outcomes(self) -> list[Outcome]:
        """The best state of each member, judged once on all data; errors are summed in float64."""
        # Fetched as a whole: on a GPU each look at a single member would be a program of its own.
        predicted, best, data = jax.device_get(
            (for_each_member(*self._judging, self.machine), self.state.best, self.data)
        )
        if self.conditions.extent is not None:
            data, _ = data_of(self.pack.trials)
        splits = (data.train, data.validation, data.test)
        predicted = [
            outputs[:, : split.y.shape[1], : split.y.shape[2]]
            for outputs, split in zip(predicted, splits, strict=True)
        ]
        datasets = np.asarray(self.conditions.dataset)
        costs = [
            sample_costs(*pair, datasets, self.training.loss) for pair in zip(predicted, splits, strict=True)
        ]
        errors = np.array([of_split.mean(axis=1) for of_split in costs])
        errors[:, ~np.isfinite(self.errors)] = np.nan
        best_steps, diverged = np.asarray(self.state.best_step), np.asarray(self.state.diverged)
        trained = [
            Outcome(
                model=_model(best, place, trial.architecture, data.mean[dataset], data.deviation[dataset]),
                train_error=float(errors[0, place]),
                validation_error=float(errors[1, place]),
                test_error=float(errors[2, place]),
                best_step=int(best_steps[place]),
                diverged=bool(diverged[place]),
                outputs=predicted[2][place],
            )
            for place, (trial, dataset) in enumerate(zip(self.pack.trials, datasets, strict=True))
        ]
        return [polished(trial, outcome) for trial, outcome in zip(self.pack.trials, trained, strict=True)]

    @property
    def slicing(self) -> Slicing:
        """All of a batch at once on a GPU, as much as stays in a core's cache on a CPU."""
        batch, shape = self.training.batch_size, self.pack.architecture
        if self.machine.kind == "gpu":
            worth_it = self.tuned and MEASURED_ON in self.machine.name  # kernels take longer to compile
            return Slicing(batch, in_batches=True, launch=launch_of(shape, self.length) if worth_it else None)
        fitting = CACHED_FEATURES // (max(shape.encoder_sizes[1:]) * self.length)
        best = max(size for size in range(1, batch + 1) if batch % size == 0 and size <= max(1, fitting))
        # A batch without a divisor near that (a prime) is better off whole.
        return Slicing(best if best * 4 > min(fitting, batch) else batch, in_batches=True)

    def _advancing(self, periods: int) -> Call:
        # Numbers of steps and samples reach members as arguments: others need no other program.
        alike = replace(
            self.training,
            steps=self.training.evaluate_every,
            warmup=0,
            train_samples=1,
            validation_samples=2,
            test_samples=2,
        )
        program = partial(advance, training=alike, slicing=self.slicing)
        return program, (self.state, self.conditions), (self.data, np.int32(periods))

    @property
    def _judging(self) -> Call:
        program = partial(_predictions, slicing=self.slicing)
        return program, (self.state.best, self.conditions), (self.data,)


def polished(trial: Trial, outcome: Outcome) -> Outcome:
    """A trained member after the polish that its trial asks for."""
    if not trial.training.polish_steps or outcome.diverged:
        return outcome
    data, _ = data_of([trial])
    from headcount.engine.polish import polish

    found = polish(outcome.model, data, 0, steps=trial.training.polish_steps)
    return replace(
        outcome,
        model=found.model,
        train_error=found.train_error,
        validation_error=found.validation_error,
        test_error=found.test_error,
        outputs=None,
    )


def initial_state(pack: TaskPack) -> Member:
    """Every member at its own random start, which depends on its trial and not on the pack."""
    models = stack(
        pad(Transformer.initialise(trial.architecture, seed=trial.seed), pack.architecture)
        for trial in pack.trials
    )
    return start(models, pack.trials[0].training)


def _model(
    best: Transformer, place: int, architecture: Architecture, mean: np.ndarray, deviation: np.ndarray
) -> Transformer:
    """A member's best model in its own size, with the standardisation of y undone in its last layer."""
    model = unpad(jax.tree.map(lambda leaf: leaf[place], best), architecture)
    weight, bias = np.asarray(model.readout.weights[-1]), np.asarray(model.readout.biases[-1])
    restored: Transformer = eqx.tree_at(
        lambda tree: (tree.readout.weights[-1], tree.readout.biases[-1]),
        model,
        (
            (weight * deviation[:, None]).astype(weight.dtype),
            (bias * deviation + mean).astype(bias.dtype),
        ),
    )
    if architecture.bounded:
        from headcount.models.bounded import project

        restored = jax.device_get(project(restored))
    return restored


def _predictions(
    model: Transformer, conditions: Conditions, data: Data, *, slicing: Slicing
) -> tuple[Array, Array, Array]:
    train, validation, test = (
        predict(model, split, conditions, slicing) for split in (data.train, data.validation, data.test)
    )
    return train, validation, test


def train(trials: Iterable[TaskTrial], *, machine: Machine | None = None) -> list[Outcome]:
    """Train members here and now and return them with their models, in the order of the trials."""
    trials, machine = tuple(trials), machine or this_machine()
    found: dict[str, Outcome] = {}
    for pack in plan(trials, machine):
        training = PackTraining(pack, machine)
        while not training.finished:
            training.chunk()
        found |= zip((trial.id for trial in pack.trials), training.outcomes(), strict=True)
    return [found[trial.id] for trial in trials]


@dataclass(frozen=True)
class Trainer:
    """What a run needs to know of trials on one type of task.

    - `plan`: puts trials into packs that share a program and fit the machine.
    - `train`: the training of a pack, from its start or from a state that was kept.
    - `start`: the state of a pack before its first step, in NumPy arrays.
    - `blank`: a model of a trial's shape, whatever its weights.
    """

    plan: Callable[[Iterable[Any], Machine], Sequence[Pack]]
    train: Callable[..., ChunkByChunk]
    start: Callable[[Any], Any]
    blank: Callable[[Any], Any]


def _transformer(trial: TaskTrial) -> Transformer:
    return Transformer.initialise(trial.architecture, seed=trial.seed)


TRAINERS: dict[type[Task], Trainer] = {TaskChoice: Trainer(plan, PackTraining, initial_state, _transformer)}


def trainer_of(trial: Trial) -> Trainer:
    """The trainer of a trial."""
    return TRAINERS[type(trial.task)]


def plan_all(trials: Iterable[Trial], machine: Machine) -> list[Pack]:
    """All trials in packs, one type of task after the other."""
    by_type: dict[type[Task], list[Trial]] = {}
    for trial in trials:
        by_type.setdefault(type(trial.task), []).append(trial)
    return [pack for kind, group in by_type.items() for pack in TRAINERS[kind].plan(group, machine)]
