"""What training made of a trial, and its row in the results frame, the only input of all that follows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from jaxtyping import Float

from headcount.trials.machine import Machine
from headcount.trials.trial import Trial
from headcount.version import versions


@dataclass(frozen=True)
class Outcome:
    """What training made of one member.

    Errors are 1 for knowing nothing (engine/member.py), NaN if it diverged before its first evaluation;
    `test_error` is NaN where there is no test split. `outputs` are the model's for the samples of the split
    `outputs_of`, y standardised, where they are kept; `scores` are further measures by name.
    """

    model: Any
    train_error: float
    validation_error: float
    test_error: float
    best_step: int
    diverged: bool
    outputs: Float[np.ndarray, "sample output"] | None = None
    outputs_of: Literal["train", "test"] = "test"
    scores: Mapping[str, float] = field(default_factory=dict)


ORDER = ["task", "dimension", "length", "heads", "learning_rate", "seed", "trial"]


@dataclass(frozen=True)
class Row:
    """One trial's line.

    `spec` is the whole trial as JSON, `scores` what else was measured; the others are what people group by.
    """

    trial: str
    task: str
    dimension: int
    token_dim: int
    length: int
    heads: int
    head_dim: int
    hidden: int
    layers: int
    width: int
    seed: int
    learning_rate: float
    steps: int
    counted_parameters: int
    train_error: float
    validation_error: float
    test_error: float
    metric: str
    status: str
    best_step: int
    device: str
    precision: str
    seconds: float
    versions: str
    spec: str
    scores: str = "{}"

    @classmethod
    def of(cls, trial: Trial, outcome: Outcome, machine: Machine, *, seconds: float) -> "Row":
        """The row of a finished trial."""
        architecture = trial.architecture
        return cls(
            trial=trial.id,
            task=trial.task.name,
            dimension=trial.task.dimension,
            token_dim=architecture.token_dim,
            length=trial.length,
            heads=architecture.heads,
            head_dim=architecture.head_dim,
            hidden=max(architecture.encoder_hidden, default=0),
            layers=architecture.layers,
            width=architecture.width,
            seed=trial.seed,
            learning_rate=float(trial.learning_rate),
            steps=trial.training.steps,
            counted_parameters=architecture.counted_parameters(),
            train_error=outcome.train_error,
            validation_error=outcome.validation_error,
            test_error=outcome.test_error,
            metric=trial.metric,
            status="diverged" if outcome.diverged else "done",
            best_step=outcome.best_step,
            device=machine.name,
            precision=architecture.precision,
            seconds=seconds,
            versions=versions(),
            spec=trial.to_json(),
            scores=json.dumps(dict(outcome.scores), sort_keys=True),
        )
