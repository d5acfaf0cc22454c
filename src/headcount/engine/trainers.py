"""How trials are put into packs, started, trained and read back, by the type of what they learn."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headcount.engine.train import ChunkByChunk, PackTraining, initial_state
from headcount.models.transformer import Transformer
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, plan
from headcount.trials.task_choice import Task, TaskChoice
from headcount.trials.trial import TaskTrial, Trial


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
