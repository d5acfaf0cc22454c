"""The columns of the results frame, as Parquet keeps them."""

from dataclasses import MISSING, asdict, fields
from typing import Any

import pyarrow as pa

from headcount.trials.row import Row

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


def is_current(spec: str) -> bool:
    """Whether a row's trial is of this version of the training algorithm."""
    return bool(spec)


def renamed_trials(shard: pa.Table) -> dict[str, str]:
    """The trials of a shard, as it was written, that have another id now: old to new."""
    del shard
    return {}
