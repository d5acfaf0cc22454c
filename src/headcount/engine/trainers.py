"""How trials are put into packs, started, trained and read back, by the type of what they learn."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from headcount.engine.train import PackTraining, initial_state
from headcount.models.transformer import Transformer
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, plan
from headcount.trials.row import Outcome
from headcount.trials.task_choice import Task, TaskChoice
from headcount.trials.trial import TaskTrial, Trial


class PackInTraining(Protocol):
    """A pack under way, one chunk at a time; `state` is all that must be kept to go on."""

    state: Any

    @property
    def step(self) -> int:
        """How many steps every member has made."""

    @property
    def finished(self) -> bool:
        """Whether all steps are made."""

    @property
    def errors(self) -> Float[np.ndarray, " member"]:
        """The error of each member so far."""

    def compile(self) -> float:
        """Make its programs ready; returns the seconds it took."""

    def chunk(self) -> None:
        """Advance every member a little."""

    def finish(self) -> None:
        """Make all steps that are left."""

    def outcomes(self) -> list[Outcome]:
        """What became of each member."""


@dataclass(frozen=True)
class Trainer:
    """What a run needs to know of trials on one type of task.

    - `plan`: puts trials into packs that share a program and fit the machine.
    - `train`: the training of a pack, from its start or from a state that was kept.
    - `start`: the state of a pack before its first step, in NumPy arrays.
    - `blank`: a model of a trial's shape, whatever its weights.
    """

    plan: Callable[[Iterable[Any], Machine], Sequence[Pack]]
    train: Callable[..., PackInTraining]
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
