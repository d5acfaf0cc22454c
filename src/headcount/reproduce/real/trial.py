"""A trial on real data: what it learns, and how such trials are put into packs."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from headcount.engine.train import TRAINERS, Trainer
from headcount.errors import InvalidInput
from headcount.models.reranker import JoinedShape, RerankerShape
from headcount.models.vit import VitShape
from headcount.reproduce.real.images import ImageProblem
from headcount.reproduce.real.joined import JoinedRanking
from headcount.reproduce.real.pooled import PooledRanking
from headcount.reproduce.real.problem import Model, Problem, Samples
from headcount.reproduce.real.training import Learner, RealTraining, initial_learners
from headcount.trials.machine import Machine
from headcount.trials.pack import COSTS, SOFTMAX, Pack, TooLarge, cut, max_in_time
from headcount.trials.task_choice import Task
from headcount.trials.training import Training
from headcount.trials.trial import Trial
from headcount.validation import check_integer

ONCE, EVENLY = "once", "evenly"
KEPT = 6  # copies of a layer's states that its gradient needs, and passing ones
RealShape: TypeAlias = VitShape | RerankerShape


@dataclass(frozen=True)
class RealData(Task):
    """A data set that was read, by name and fingerprint; `data` is what was read."""

    @classmethod
    def read(cls, name: str, data: Any, *arrays: np.ndarray) -> "RealData":
        """A data set known by the content of the arrays that it is made of."""
        content = hashlib.sha256()
        for array in arrays:
            content.update(f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
        return cls.of(name, fingerprint=content.hexdigest()[:16]).with_data(data)

    @property
    def fingerprint(self) -> str:
        """Of its content."""
        return str(dict(self.options)["fingerprint"])

    @property
    def placed_once(self) -> bool:
        """Whether an image keeps one place of its frame."""
        return dict(self.options).get("placed") == ONCE

    def placing_once(self) -> "RealData":
        """The same data, every image at one place."""
        return self.of(self.name, fingerprint=self.fingerprint, placed=ONCE).with_data(self.data)

    @property
    def drawn_evenly(self) -> bool:
        """Whether the negatives of a list are drawn from all, and not the hardest."""
        return dict(self.options).get("drawn") == EVENLY

    def drawing_evenly(self) -> "RealData":
        """The same data, with lists whose negatives are as hard at every T."""
        return self.of(self.name, fingerprint=self.fingerprint, drawn=EVENLY).with_data(self.data)

    def metric(self, training: Training) -> str:
        """Its errors are shares of samples."""
        return "share wrong"

    def check(self, length: int, token_dim: int, training: Training) -> None:
        """There is nothing to choose among less than two tokens."""
        check_integer("length", length, at_least=2)


RealTrial: TypeAlias = Trial[RealData, RealShape]
RealPack: TypeAlias = Pack[RealData, RealShape]


def problem_of(trial: RealTrial) -> Problem:
    """What a trial learns, less its data: what programs are compiled for."""
    shape, sizes = trial.architecture, (trial.training.train_samples, trial.training.validation_samples)
    if isinstance(shape, VitShape):
        return ImageProblem(shape, *sizes, trial.task.placed_once)
    if isinstance(shape, JoinedShape):
        return JoinedRanking(shape, trial.length, *sizes, evenly=trial.task.drawn_evenly)
    return PooledRanking(shape, trial.length, *sizes, evenly=trial.task.drawn_evenly)


def samples_of(trial: RealTrial) -> Samples:
    """What a trial learns from and is evaluated on."""
    if trial.task.data is None:
        raise InvalidInput(f"data: expected a data set, got its fingerprint alone: {trial.task.fingerprint}")
    return problem_of(trial).samples(trial.task.data)


def plan_alike(trials: Iterable[RealTrial], machine: Machine) -> list[RealPack]:
    """Packs of trials that differ in seed and learning rate alone, as many as memory and time allow."""
    groups: dict[RealTrial, list[RealTrial]] = {}
    for trial in trials:
        groups.setdefault(replace(trial, seed=0, learning_rate=1.0), []).append(trial)
    packs: list[RealPack] = []
    for alike, group in groups.items():
        needed = member_bytes(alike)
        if needed > machine.memory_for_one:
            raise TooLarge(
                f"heads = {alike.architecture.heads}, length = {alike.length}: expected a member of at most "
                f"{machine.memory_for_one / 2**30:,.1f} GiB on this machine, got {needed / 2**30:,.1f} GiB"
            )
        member_seconds = alike.training.steps * step_seconds(alike, machine)
        max_members = max_in_time(machine, machine.holding(needed), member_seconds)
        packs += cut(group, alike.architecture, max_members, machine)
    return packs


def step_seconds(trial: RealTrial, machine: Machine) -> float:
    """A rough time of one step of one member: its layers' multiply-adds, and its weights."""
    shape, sequence = trial.architecture.encoder, trial.architecture.sequence(trial.length)
    weights = shape.layers * (shape.mixing_weights + 2 * shape.width * shape.feedforward)
    token = weights + shape.layers * SOFTMAX * shape.heads * sequence
    cost = COSTS[machine.kind]
    return cost.step + cost.token * trial.training.batch_size * sequence * token + cost.weight * weights


def member_bytes(trial: RealTrial) -> int:
    """An upper estimate of what one member holds while it trains."""
    shape, sequence = trial.architecture.encoder, trial.architecture.sequence(trial.length)
    number = 2 if shape.precision == "bfloat16" else 4
    widest = max(shape.width, shape.inner)
    states = KEPT * (4 * widest + 2 * shape.feedforward) + 3 * shape.heads * sequence
    learnt = 32 * trial.architecture.counted_parameters()
    return learnt + trial.training.batch_size * sequence * shape.layers * states * number


def train_real(pack: RealPack, machine: Machine, *, state: Learner | None = None) -> RealTraining:
    """The training of a pack, from its start or from a state that was kept."""
    trial = pack.trials[0]
    return RealTraining(pack, machine, problem_of(trial), samples_of(trial), state=state)


def _start(pack: RealPack) -> Learner:
    return initial_learners(pack, problem_of(pack.trials[0]))


def _blank(trial: RealTrial) -> Model:
    return problem_of(trial).start(trial.seed)


TRAINERS[RealData] = Trainer(plan_alike, train_real, _start, _blank)
