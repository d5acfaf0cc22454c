"""Packs of the paper's synthetic model that nobody trained yet, to time."""

import time
from typing import Any

from headcount.engine.train import PackTraining
from headcount.trials.grid import Grid
from headcount.trials.machine import this_machine
from headcount.trials.pack import Pack, TaskPack
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training


def pack_of(members: int, training: Training | None = None, **shape: Any) -> TaskPack:
    """Members of one shape that differ in their seed."""
    trials = Grid(
        TaskChoice.of("max_sum"),
        seed=tuple(range(members)),
        training=training or Training(steps=10**6),
        **shape,
    ).trials()
    return Pack(trials, trials[0].architecture)


def compiled(pack: TaskPack) -> tuple[PackTraining, float]:
    """A training that has begun, with the seconds until its first period was over."""
    training, began = PackTraining(pack, this_machine()), time.perf_counter()
    training.tuned = True
    training.state = training._advance(1)
    return training, time.perf_counter() - began


def seconds_a_step(training: PackTraining, seconds: float) -> float:
    """Of all members together: the fastest of three runs that share the seconds."""
    every = training.training.evaluate_every

    def run(periods: int) -> float:
        began = time.perf_counter()
        training.state = training._advance(periods)
        return (time.perf_counter() - began) / (periods * every)

    periods = max(1, round(seconds / 3 / (run(1) * every)))
    return min(run(periods) for _ in range(3))
