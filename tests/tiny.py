"""Trials small enough to train in a test."""

from typing import Any

from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training

TINY_TRAINING: dict[str, Any] = {
    "steps": 40,
    "evaluate_every": 10,
    "batch_size": 16,
    "train_samples": 128,
    "validation_samples": 60,
    "test_samples": 100,
}


def tiny_grid(*, task: str = "max_sum", options: dict[str, Any] | None = None, **changes: Any) -> Grid:
    """A grid of tiny trials; `changes` are fields of the grid or of its training."""
    in_training = {key: changes.pop(key) for key in list(changes) if key in Training.__dataclass_fields__}
    chosen = TaskChoice.of(task, **({"token_dim": 3} if options is None else options))
    axes: dict[str, Any] = {
        "dimension": (2,), "length": (6,), "heads": (2,), "head_dim": (3,), "hidden": (5,), **changes
    }  # fmt: skip
    return Grid(chosen, training=Training(**{**TINY_TRAINING, **in_training}), **axes)
