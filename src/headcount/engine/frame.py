"""The results frame: one row per trial, the only input of estimates, plots and reports."""

import json
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

import pyarrow as pa

from headcount.engine.machine import Machine, versions
from headcount.engine.spec import Trial
from headcount.engine.train import Outcome

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


_TYPES: dict[Any, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64()}
SCHEMA = pa.schema([(column.name, _TYPES[column.type]) for column in fields(Row)])


def as_now(shard: pa.Table) -> pa.Table:
    """A shard of an earlier version with the columns that came later, at their defaults."""
    for column in fields(Row):
        if column.default is not MISSING and column.name not in shard.column_names:
            values = pa.array([column.default] * len(shard), _TYPES[column.type])
            shard = shard.append_column(column.name, values)
    return shard


def table(rows: list[Row]) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=SCHEMA)
