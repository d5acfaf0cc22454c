"""The members of a head sweep over a user's data: how they are trained, which ones, and the finished ones."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
import pyarrow as pa

from headcount.data.arrays import DataSet
from headcount.models.architecture import Architecture, PositionInput
from headcount.results.shards import read_shard
from headcount.results.store import Store
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import TaskTrial, Trial

# Positions are used where they take the error, plus this, below that share of it.
SLACK, SHARE = 3e-3, 0.8
STUCK = 1.2  # times the error of fewer heads


@dataclass(frozen=True)
class MemberRecipe:
    """How each member is trained: enough for its number of heads to show, no more.

    - `starts`: a learning rate and a seed for each member of one number of heads; `more_starts` for another
      try where all of these got stuck.
    - `validation_share`, `test_share`: of the samples, the first to select by and the second to measure by.
    """

    steps: int = 8_000
    batch_size: int = 128
    starts: tuple[tuple[float, int], ...] = ((1e-2, 0), (3e-3, 1))
    more_starts: tuple[tuple[float, int], ...] = ((1e-2, 2), (3e-3, 3))
    width: int = 32
    hidden: int = 32
    max_heads: int = 8
    weight_decay: float = 3e-3
    label_decay: float = 3e-2
    validation_share: float = 0.15
    test_share: float = 0.15
    positions: PositionInput = "none"

    def trials(self, data: DataSet, heads: Iterable[int], *, seed: int = 0) -> tuple[TaskTrial, ...]:
        """Every start of every number of heads."""
        training, task = self.training(data, seed=seed), TaskChoice.of_data(data)
        return tuple(
            Trial(task, data.length, self.architecture(data, count), rate, seed + start, training)
            for count in heads
            for rate, start in self.starts
        )

    def again(self) -> "MemberRecipe":
        """The same with other starts and twice the steps."""
        return replace(self, starts=self.more_starts, steps=2 * self.steps)

    def shortened(self) -> "MemberRecipe":
        """A quarter of the steps from one start, and one more where that is not enough."""
        steps = max(200, self.steps // 400 * 100)
        return replace(self, steps=steps, starts=self.starts[:1], more_starts=self.more_starts[:1])

    def quick(self) -> "MemberRecipe":
        """A tenth of the steps: for an early estimate, and to see where to look closer."""
        return replace(self, steps=max(200, self.steps // 1000 * 100))

    def training(self, data: DataSet, *, seed: int = 0) -> Training:
        """The training of all members: the same samples in the same splits."""
        samples = len(data.x)
        validation, test = round(samples * self.validation_share), round(samples * self.test_share)
        return Training(
            steps=self.steps,
            batch_size=self.batch_size,
            weight_decay=self.label_decay if data.classes else self.weight_decay,
            train_samples=samples - validation - test,
            validation_samples=validation,
            test_samples=test,
            data_seed=seed,
            loss="cross_entropy" if data.classes else "squared",
        )

    def encoder_hidden(self, data: DataSet) -> tuple[int, ...]:
        """The hidden layer of the encoder, wide enough to tell integer tokens apart.

        On axes of their own they need none: any function of a token is linear in them, and learnt sooner.
        With a layer that is too narrow, more heads do better because each learns an encoding of its own.
        """
        one_hot = data.ids == data.token_dim
        if one_hot and self.positions == "none":
            return ()
        return (self.hidden * (1 if not data.ids else 2 if one_hot else 4),)

    def architecture(self, data: DataSet, heads: int) -> Architecture:
        """The paper's class with one layer; position inputs start at zero.

        All members have the same width: with heads of one size, one head would also be too narrow.
        """
        return Architecture(
            token_dim=data.token_dim,
            output_dim=data.output_dim,
            heads=heads,
            head_dim=ceil(self.width / heads),
            encoder_hidden=self.encoder_hidden(data),
            readout_hidden=(self.hidden,),
            positions=self.positions,
            positions_start="zero",
            length=data.length if self.positions == "both" else None,
        )


@dataclass(frozen=True)
class Stage:
    """Members to be trained, what for, and why now.

    - `number`: its place among the kinds of stages that a study may have; one of them may come several times.
    """

    name: str
    trials: tuple[TaskTrial, ...]
    reason: str = ""
    number: int = 1


def helpful_positions(trials: Sequence[TaskTrial], errors: Mapping[str, float]) -> PositionInput:
    """The position input that these members have; of two, the one that helps the widest of them more."""
    widest, best = (
        max((trial.architecture.heads for trial in trials), default=0),
        dict[PositionInput, float](),
    )
    for trial in trials:
        if trial.architecture.heads == widest:
            kind = trial.architecture.positions
            best[kind] = min(best.get(kind, np.inf), np.nan_to_num(errors[trial.id], nan=np.inf))
    if len(best) == 1:
        return next(iter(best))
    helps = "both" in best and best["both"] + SLACK < SHARE * (best["none"] + SLACK)
    return "both" if helps else "none"


def stuck_heads(
    trials: Sequence[TaskTrial], errors: Mapping[str, float], *, again: Collection[int] = ()
) -> list[int]:
    """The head counts whose members did worse than fewer heads, and those to be tried again anyway."""
    lowest, stuck = np.inf, list[int]()
    for count in dict.fromkeys(trial.architecture.heads for trial in trials):
        own = [errors[trial.id] for trial in trials if trial.architecture.heads == count]
        best = float(np.nanmin([*own, np.inf]))
        if count in again or best > STUCK * lowest + SLACK / 3:
            stuck.append(count)
        lowest = min(lowest, best)
    return stuck


class FinishedMembers:
    """What a store holds of them; what it does not hold yet is looked up again at the next request."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._shards: set[Path] = set()
        self._errors: dict[str, float] = {}
        self._outputs: dict[str, np.ndarray] = {}

    def errors(self, trials: Sequence[Trial]) -> dict[str, float] | None:
        """Their validation errors, if all of them are finished.

        Unusable files are reported by the run.
        """
        if any(trial.id not in self._errors for trial in trials):
            self._look()
        if any(trial.id not in self._errors for trial in trials):
            return None
        return {trial.id: self._errors[trial.id] for trial in trials}

    def among(self, trials: Iterable[Trial]) -> dict[str, float]:
        """The validation errors of those of them that are finished."""
        self._look()
        return {trial.id: self._errors[trial.id] for trial in trials if trial.id in self._errors}

    def outputs(self, trials: Sequence[Trial]) -> dict[str, np.ndarray] | None:
        """Their outputs for the test samples, if all of them are finished and kept."""
        if self.errors(trials) is None:
            return None
        for trial in trials:
            if trial.id not in self._outputs:
                outputs = self._store.test_outputs(trial)
                if outputs is None or self._store.model(trial) is None:
                    return None
                self._outputs[trial.id] = outputs
        return {trial.id: self._outputs[trial.id] for trial in trials}

    def _look(self) -> None:
        """Read the new shards; an unusable one may be rewritten under its name."""
        for path in sorted(set(self._store.shards.glob("*.parquet")) - self._shards):
            shard = read_shard(path)
            if isinstance(shard, pa.Table):
                columns = (shard[name].to_pylist() for name in ("trial", "validation_error"))
                self._errors |= zip(*columns, strict=True)
                self._shards.add(path)
