"""The columns of the results frame as Parquet keeps them, and rows of earlier versions as they are now."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headcount.models.architecture import Architecture
from headcount.trials.row import Row
from headcount.trials.task_choice import DATA, Task
from headcount.trials.trial import Trial, as_json, filled, key_of
from headcount.version import ALGORITHM

_TYPES: dict[Any, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64()}
SCHEMA = pa.schema([(column.name, _TYPES[column.type]) for column in fields(Row)])
UNNAMED_ALGORITHM = 1  # of rows that do not name theirs


def as_now(shard: pa.Table) -> pa.Table:
    """A shard of an earlier version with later columns at their defaults and with the keys of today."""
    for column in fields(Row):
        if column.default is not MISSING and column.name not in shard.column_names:
            values = pa.array([column.default] * len(shard), _TYPES[column.type])
            shard = shard.append_column(column.name, values)
    return upgraded(shard)


def table(rows: list[Row]) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist([asdict(row) for row in rows], schema=SCHEMA)


def is_current(spec: str) -> bool:
    """Whether a row comes from the training algorithm of today, and a trial of today can find it."""
    return spec.startswith(f'{{"algorithm": {ALGORITHM}, ')  # keys are sorted, so that it comes first


def upgraded(shard: pa.Table) -> pa.Table:
    """The shard with the keys and specs of today, where rows of an earlier version can be given them.

    A user's task was known by some of its targets, from which nothing can be said of its code: such rows
    stay as they are, and so does whatever was not written by headcount.
    """
    if (found := _upgrades(shard)) is None:
        return shard
    for column, values in zip(("trial", "spec"), zip(*found, strict=True), strict=True):
        place = shard.column_names.index(column)
        shard = shard.set_column(place, shard.field(column), pa.array(values, shard.field(column).type))
    return shard


def renamed_trials(shard: pa.Table) -> dict[str, str]:
    """The keys that `upgraded` changes, from the old one to that of today."""
    found = _upgrades(shard) or []
    before = shard["trial"].to_pylist() if found else []
    return {old: new for old, (new, _) in zip(before, found, strict=True) if old != new}


def _upgrades(shard: pa.Table) -> list[tuple[str, str]] | None:
    """Key and spec of every row; None where there is nothing to change."""
    if not {"trial", "spec"} <= set(shard.column_names):
        return None
    pairs = list(zip(shard["trial"].to_pylist(), shard["spec"].to_pylist(), strict=True))
    found = [_upgrade(trial, spec) for trial, spec in pairs]
    return found if found != pairs else None


def _upgrade(trial: Any, spec: Any) -> tuple[Any, Any]:
    """Key and spec of a row as they are today; the key was once the hash of the spec."""
    if not isinstance(spec, str) or spec.startswith('{"algorithm": '):
        return trial, spec
    if hashlib.sha256(spec.encode()).hexdigest()[:16] != trial:
        return trial, spec
    try:
        old = json.loads(spec)
        task, shape = dict(old["task"]), shape_of(old["architecture"])
        if task["name"] == DATA:  # once known by its file as well
            task["options"] = [option for option in task["options"] if option[0] != "file"]
        whole = filled(Trial, {**old, "task": task}, task=Task, architecture=shape)
    except (KeyError, TypeError, ValueError):
        return trial, spec
    whole["algorithm"] = UNNAMED_ALGORITHM
    return key_of(whole, shape), as_json(whole)


def shape_of(written: Mapping[str, Any]) -> type:
    """The class of a model's shape by its fields. The models of real data are loaded only for theirs."""
    if "encoder" not in written:
        return Architecture
    if "side" in written:
        from headcount.models.vit import VitShape

        return VitShape
    from headcount.models.reranker import JoinedShape, RerankerShape

    return JoinedShape if "passage_tokens" in written else RerankerShape


@dataclass(frozen=True)
class Unusable:
    """A file in a results folder that holds no results, and why."""

    path: Path
    reason: str
    damaged: bool

    def line(self, *, set_aside: bool) -> str:
        """The file and what becomes of it, in one line."""
        if not self.damaged:
            return f"{self.path}: {self.reason}, left alone"
        fate = "set aside, its trials are trained again" if set_aside else "left out"
        return f"{self.path}: damaged ({self.reason}), {fate}"


def read_shard(path: Path) -> pa.Table | Unusable:
    """The rows of one shard, or why it has none to give."""
    shard = read_parquet(path)
    if isinstance(shard, Unusable):
        return shard
    shard = as_now(shard)
    if not shard.schema.equals(SCHEMA):
        return Unusable(path, "Parquet, but not a shard of headcount's", damaged=False)
    if any(column.null_count for column in shard.columns):
        return Unusable(path, "values are missing", damaged=True)
    return shard


def read_parquet(path: Path) -> pa.Table | Unusable:
    """A shard as it was written."""
    if not path.is_file():
        return Unusable(path, "not a file of headcount's", damaged=False)
    try:
        with path.open("rb") as file:
            return pq.read_table(file, page_checksum_verification=True)
    except Exception as error:  # damaged files raise many exception types: all of them count as damaged
        reason = "empty" if path.stat().st_size == 0 else str(error).partition("\n")[0].partition(". ")[0]
        return Unusable(path, reason, damaged=True)
