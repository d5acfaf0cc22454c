"""The data of a pack: drawn once per task and length, shared by all members that learn it."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float

from headcount.engine.spec import TaskChoice, Training, Trial
from headcount.errors import InvalidInput
from headcount.models.network import Parameter as AnyArray


class Split(eqx.Module):
    """Sequences and their standardised targets, for every data set of a pack."""

    x: Float[AnyArray, "dataset sample token token_dim"]
    y: Float[AnyArray, "dataset sample output"]


class Data(eqx.Module):
    """Targets are standardised by the mean and deviation of the training split."""

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


@lru_cache(maxsize=4)
def _draw(task: TaskChoice, length: int, training: Training) -> Data:
    sizes = training.train_samples, training.validation_samples, training.test_samples
    draw = jax.jit(task.build().sample, static_argnums=(1, 2))
    samples = draw(jax.random.PRNGKey(training.data_seed), sum(sizes), length)
    x, y = np.asarray(samples.x), np.asarray(samples.y, np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InvalidInput(f"task = {task.name!r}: its samples are not all finite")
    seen = y[: training.train_samples]
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    if (deviation <= 1e-12 * (1 + abs(mean))).any():
        raise InvalidInput(
            f"task = {task.name!r}: its target is constant at length {length}: nothing to learn"
        )
    standardised = ((y - mean) / deviation).astype(np.float32)
    cuts = np.cumsum(sizes)[:-1]
    train, validation, test = map(Split, np.split(x, cuts), np.split(standardised, cuts))
    return Data(train, validation, test, mean, deviation)
