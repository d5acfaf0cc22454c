"""A trial on real data: the same to a run and to the results frame as a trial on a task of the library."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from headcount.engine.trainers import TRAINERS, Trainer
from headcount.models.encoder import EncoderShape
from headcount.models.reranker import JoinedShape, RerankerShape
from headcount.models.vit import VitShape
from headcount.reproduce.real.images import ImageProblem
from headcount.reproduce.real.joined import JoinedRanking
from headcount.reproduce.real.pooled import PooledRanking
from headcount.reproduce.real.problem import Model, Problem
from headcount.reproduce.real.training import RealTraining, initial_learners
from headcount.trials.machine import Machine
from headcount.trials.pack import Pack, TooLarge
from headcount.trials.planning import COSTS, SOFTMAX, cut, max_in_time
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import MAX_SEED
from headcount.trials.trial import Trial
from headcount.validation import check_integer, check_number

ONCE = "once"
KEPT = 6  # copies of a layer's states that its gradient needs, and passing ones


@dataclass(frozen=True)
class RealData(TaskChoice):
    """A data set that was loaded, by name and fingerprint."""

    @property
    def dimension(self) -> int:
        """Nobody knows it."""
        return 0

    @property
    def fingerprint(self) -> str:
        """Of what is in it."""
        return str(dict(self.options)["fingerprint"])

    @property
    def placed_once(self) -> bool:
        """Whether an image keeps one place of its frame."""
        return dict(self.options).get("placed") == ONCE

    def placing_once(self) -> "RealData":
        """The same data, every image at one place."""
        return self.of(self.name, fingerprint=self.fingerprint, placed=ONCE)


@dataclass(frozen=True)
class RealTrial(Trial):
    """One member on real data; its architecture is a `VitShape` or a `RerankerShape`."""

    def __post_init__(self) -> None:
        check_integer("length", self.length, at_least=2)
        check_integer("seed", self.seed, at_least=0, at_most=MAX_SEED)
        check_number("learning_rate", self.learning_rate, above=0)

    @property
    def metric(self) -> str:
        """Its errors are shares of samples."""
        return "share wrong"

    def to_json(self) -> str:
        """All fields, in an order that never changes."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def problem(self) -> Problem:
        """What it learns."""
        shape: object = self.architecture
        data, recipe = self.task, self.training
        assert isinstance(data, RealData)
        sizes = recipe.train_samples, recipe.validation_samples
        if isinstance(shape, VitShape):
            return ImageProblem(shape, data.fingerprint, *sizes, data.placed_once)
        assert isinstance(shape, RerankerShape)
        if isinstance(shape, JoinedShape):
            return JoinedRanking(shape, data.fingerprint, self.length, *sizes)
        return PooledRanking(shape, data.fingerprint, self.length, *sizes)


def plan_alike(trials: Iterable[Trial], machine: Machine) -> list[Pack]:
    """Packs of trials that differ in seed and learning rate alone, as many as memory and time allow."""
    groups: dict[Trial, list[Trial]] = {}
    for trial in trials:
        groups.setdefault(replace(trial, seed=0, learning_rate=1.0), []).append(trial)
    packs = []
    for alike, group in groups.items():
        needed = member_bytes(alike)
        if needed > machine.memory_for_one:
            raise TooLarge(
                f"heads = {alike.architecture.heads}, length = {alike.length}: one member needs "
                f"{needed / 2**30:,.1f} GiB; "
                f"allowed are {machine.memory_for_one / 2**30:,.1f} on this machine"
            )
        member_seconds = alike.training.steps * step_seconds(alike, machine)
        most = max_in_time(machine, machine.holding(needed), member_seconds)
        packs += cut(group, alike.architecture, most, machine)
    return packs


def step_seconds(trial: Trial, machine: Machine) -> float:
    """A rough time of one step of one member: its layers' multiply-adds, and its weights."""
    shape: EncoderShape = trial.architecture.encoder  # type: ignore[attr-defined]
    sequence: int = trial.architecture.sequence(trial.length)  # type: ignore[attr-defined]
    weights = shape.layers * (4 * shape.width**2 + 2 * shape.width * shape.feedforward)
    token = weights + shape.layers * SOFTMAX * shape.heads * sequence
    cost = COSTS[machine.kind]
    return cost.step + cost.token * trial.training.batch_size * sequence * token + cost.weight * weights


def member_bytes(trial: Trial) -> int:
    """An upper estimate of what one member holds while it trains."""
    shape: EncoderShape = trial.architecture.encoder  # type: ignore[attr-defined]
    sequence: int = trial.architecture.sequence(trial.length)  # type: ignore[attr-defined]
    number = 2 if shape.precision == "bfloat16" else 4
    states = KEPT * (4 * shape.width + 2 * shape.feedforward) + 3 * shape.heads * sequence
    learnt = 32 * trial.architecture.counted_parameters()
    return learnt + trial.training.batch_size * sequence * shape.layers * states * number


def _blank(trial: Trial) -> Model:
    assert isinstance(trial, RealTrial)
    return trial.problem.start(trial.seed)


TRAINERS[RealTrial] = Trainer(plan_alike, RealTraining, initial_learners, _blank)
