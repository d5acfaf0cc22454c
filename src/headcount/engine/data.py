"""The data of a pack: drawn once per task and length, shared by all members that learn it."""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakKeyDictionary

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from headcount.errors import InvalidInput
from headcount.models.network import Parameter as AnyArray
from headcount.trials.task_choice import DATA, Task, TaskChoice, forget_built
from headcount.trials.training import Training
from headcount.trials.trial import Trial

if TYPE_CHECKING:
    from headcount.data.arrays import DataSet


class Draw(NamedTuple):
    """How many samples the three splits have, and the seed that they are drawn or ordered with."""

    train: int
    validation: int
    test: int
    seed: int

    @classmethod
    def of(cls, training: Training) -> "Draw":
        """Those of a training."""
        return cls(
            training.train_samples, training.validation_samples, training.test_samples, training.data_seed
        )

    @property
    def samples(self) -> int:
        """In all splits."""
        return self.train + self.validation + self.test

    @property
    def cuts(self) -> list[int]:
        """Where the second and the third split begin."""
        return [self.train, self.train + self.validation]


# The splits of a data set for as long as the data set itself is in use: packs follow one another on the same.
_last_splits: "WeakKeyDictionary[DataSet, tuple[Draw, Data]]" = WeakKeyDictionary()


class Split(eqx.Module):
    """Sequences and targets of every data set of a pack, and which tokens are there, where lengths differ."""

    x: Float[AnyArray, "dataset sample token token_dim"]
    y: Float[AnyArray, "dataset sample output"]
    mask: Bool[AnyArray, "dataset sample token"] | None = None


class Data(eqx.Module):
    """Targets are standardised by the mean and deviation of the training split; labels are one-hot codes."""

    train: Split
    validation: Split
    test: Split
    mean: Float[AnyArray, "dataset output"]
    deviation: Float[AnyArray, "dataset output"]


def data_of(trials: Sequence[Trial]) -> tuple[Data, np.ndarray]:
    """The data sets that the trials need, stacked, and which of them each trial learns."""
    wanted = [(trial.task, trial.length, Draw.of(trial.training)) for trial in trials]
    distinct = list(dict.fromkeys(wanted))
    stacked: Data = jax.tree.map(lambda *leaves: np.stack(leaves), *(_data(*choice) for choice in distinct))
    return stacked, np.array([distinct.index(choice) for choice in wanted], np.int32)


def forget_tasks() -> None:
    """Build tasks and draw from them again: a name may stand for another one now."""
    forget_built()
    _drawn.cache_clear()


def _data(task: Task, length: int, draw: Draw) -> Data:
    assert isinstance(task, TaskChoice), "real data has a trainer of its own"
    if task.name != DATA:
        return _drawn(task, task.version, length, draw)
    if task.data is None:
        raise InvalidInput(f"data: expected a data set, got its fingerprint alone: {dict(task.options)}")
    before = _last_splits.get(task.data)
    if before is None or before[0] != draw:
        before = _last_splits[task.data] = draw, _split(task.data, draw)
    return before[1]


@lru_cache(maxsize=4)
def _drawn(task: TaskChoice, version: str, length: int, draw: Draw) -> Data:
    sample = jax.jit(task.build().sample, static_argnums=(1, 2))
    samples = sample(jax.random.PRNGKey(draw.seed), draw.samples, length)
    x, y = np.asarray(samples.x), np.asarray(samples.y, np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InvalidInput(f"task {task.name!r}: expected finite samples, got others at length {length}")
    constant = f"task {task.name!r}: expected a target that varies, got a constant one at length {length}"
    standardised, mean, deviation = _standardised(y, draw.train, constant)
    train, validation, test = map(Split, np.split(x, draw.cuts), np.split(standardised, draw.cuts))
    return Data(train, validation, test, mean, deviation)


def _split(own: "DataSet", draw: Draw) -> Data:
    """A user's samples in an order that the seed of the data decides, cut into the three splits."""
    if draw.samples > len(own.x):
        raise InvalidInput(
            f"train_samples: expected at most {len(own.x)} samples in all splits, got {draw.samples}"
        )
    order = np.random.default_rng(draw.seed).permutation(len(own.x))[: draw.samples]
    y = own.targets[order]
    mean, deviation = np.zeros(y.shape[1]), np.ones(y.shape[1])
    if not own.classes:
        constant = f"data {own.name!r}: expected y to vary, got a constant in the training split"
        y, mean, deviation = _standardised(y, draw.train, constant)
    cuts = draw.cuts
    masks = (None,) * 3 if own.mask is None else np.split(own.mask[order], cuts)
    splits = map(Split, np.split(own.x[order], cuts), np.split(y.astype(np.float32), cuts), masks)
    train, validation, test = splits
    for name, split in (("training", train), ("validation", validation), ("test", test)):
        _check_variation(own, name, split)
    return Data(train, validation, test, mean, deviation)


def _check_variation(own: "DataSet", name: str, split: Split) -> None:
    """Errors are in units of what is not known before: in every split, y must vary."""
    constant = np.ptp(split.y, axis=0) == 0
    if constant.all() if own.classes else constant.any():
        raise InvalidInput(
            f"data {own.name!r}: expected y to vary, got a constant in the {name} split, {len(split.y)} of "
            f"{len(own.x)} samples drawn at random; more samples in which it differs are needed"
        )


def _standardised(y: np.ndarray, seen: int, constant: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets less the mean and over the deviation of the samples that training sees."""
    mean, deviation = y[:seen].mean(axis=0), y[:seen].std(axis=0)
    if (deviation <= 1e-12 * (1 + abs(mean))).any():
        raise InvalidInput(constant)
    return ((y - mean) / deviation).astype(np.float32), mean, deviation
