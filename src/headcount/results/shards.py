"""Reading one shard: its rows, or why it has none to give."""

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headcount.results.schema import SCHEMA, as_now


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
