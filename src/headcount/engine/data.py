"""The data of a pack: drawn once per task and length, shared by all members that learn it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float

from headcount.data.arrays import DataSet
from headcount.errors import InvalidInput
from headcount.models.network import Parameter as AnyArray
from headcount.trials.task_choice import TaskChoice, forget_built
from headcount.trials.training import Training
from headcount.trials.trial import Trial


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
    wanted = [(trial.task, trial.length, replace(trial.training, polish_steps=0)) for trial in trials]
    distinct = list(dict.fromkeys(wanted))
    stacked: Data = jax.tree.map(lambda *leaves: np.stack(leaves), *(_draw(*choice) for choice in distinct))
    return stacked, np.array([distinct.index(choice) for choice in wanted], np.int32)


def forget_tasks() -> None:
    """Build tasks and draw from them anew: a name may mean another one now."""
    forget_built()
    _draw.cache_clear()


@lru_cache(maxsize=4)
def _draw(task: TaskChoice, length: int, training: Training) -> Data:
    sizes = training.train_samples, training.validation_samples, training.test_samples
    own = task.data
    if own is not None:
        return _split(own, sizes, training)
    draw = jax.jit(task.build().sample, static_argnums=(1, 2))
    samples = draw(jax.random.PRNGKey(training.data_seed), sum(sizes), length)
    x, y = np.asarray(samples.x), np.asarray(samples.y, np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InvalidInput(f"task = {task.name!r}: its samples are not all finite")
    standardised, mean, deviation = _standardised(
        y, training.train_samples, f"task = {task.name!r}: its target is constant at length {length}"
    )
    cuts = np.cumsum(sizes)[:-1]
    train, validation, test = map(Split, np.split(x, cuts), np.split(standardised, cuts))
    return Data(train, validation, test, mean, deviation)


def _split(own: DataSet, sizes: tuple[int, int, int], training: Training) -> Data:
    """A person's samples in an order that the seed of the data decides, cut into the three splits."""
    if sum(sizes) > len(own.x):
        raise InvalidInput(f"train_samples = {sizes[0]}: the three splits have {sum(sizes)} of {len(own.x)}")
    order = np.random.default_rng(training.data_seed).permutation(len(own.x))[: sum(sizes)]
    y = own.targets[order]
    mean, deviation = np.zeros(y.shape[1]), np.ones(y.shape[1])
    if not own.classes:
        y, mean, deviation = _standardised(
            y, sizes[0], f"data = {own.name!r}: y is constant in the training split"
        )
    cuts = np.cumsum(sizes)[:-1]
    masks = (None,) * 3 if own.mask is None else np.split(own.mask[order], cuts)
    splits = map(Split, np.split(own.x[order], cuts), np.split(y.astype(np.float32), cuts), masks)
    train, validation, test = splits
    for name, split in (("training", train), ("validation", validation), ("test", test)):
        _has_something_to_tell(own, name, split)
    return Data(train, validation, test, mean, deviation)


def _has_something_to_tell(own: DataSet, name: str, split: Split) -> None:
    """Errors are in units of what is not known before: in every split, y must vary."""
    constant = np.ptp(split.y, axis=0) == 0
    if constant.all() if own.classes else constant.any():
        raise InvalidInput(
            f"data = {own.name!r}: y is constant in the {name} split, {len(split.y)} of {len(own.x)} samples "
            "drawn at random: more samples in which it differs are needed"
        )


def _standardised(y: np.ndarray, seen: int, constant: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets less the mean and over the deviation of the samples that training sees."""
    mean, deviation = y[:seen].mean(axis=0), y[:seen].std(axis=0)
    if (deviation <= 1e-12 * (1 + abs(mean))).any():
        raise InvalidInput(f"{constant}: nothing to learn")
    return ((y - mean) / deviation).astype(np.float32), mean, deviation
