"""Results folders that nobody trained, for the tests of merging."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from headcount.errors import HeadcountError
from headcount.results.merge import merge
from headcount.results.shards import table
from headcount.results.store import read_results
from headcount.trials.row import ORDER, Row
from headcount.version import ALGORITHM

CIRCUMSTANCES = ["seconds", "device", "versions"]


def row(number: int, **changes: Any) -> Row:
    """The row of one of many invented trials."""
    made = Row(
        trial=f"{number:016x}", task="max_sum", dimension=2, token_dim=3, length=8 + number % 3, heads=2,
        head_dim=4, hidden=8, layers=1, width=8, seed=number, learning_rate=3e-3, steps=100,
        counted_parameters=100, train_error=0.1 / (1 + number), validation_error=0.2 / (1 + number),
        test_error=0.3 / (1 + number), metric="nmse", status="done", best_step=90, device="laptop",
        precision="float32", seconds=1.0, versions="headcount 0.1.0",
        spec=f'{{"algorithm": {ALGORITHM}, "seed": {number}}}',
    )  # fmt: skip
    return replace(made, **changes)


def write_shard(folder: Path, name: str, rows: Sequence[Row]) -> Path:
    """A shard, as the store writes it."""
    path = folder / "shards" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(list(rows)), path, write_page_checksum=True)
    return path


def write_folder(folder: Path, rows: Iterable[Row], *, shards: int = 2) -> Path:
    """A results folder with its rows spread over a few shards."""
    rows = list(rows)
    (folder / "shards").mkdir(parents=True)
    for place in range(shards):
        if part := rows[place::shards]:
            write_shard(folder, f"pack{place}", part)
    return folder


def keep_model(folder: Path, number: int, *, fill: float = 1.0, outputs: bool = True) -> Path:
    """A model's file, as the store keeps it."""
    (folder / "models").mkdir(exist_ok=True)
    path = folder / "models" / f"{number:016x}.npz"
    arrays = {"leaf_0": np.full(4, fill), **({"test_outputs": np.zeros((2, 1))} if outputs else {})}
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def plain_union(folders: Sequence[Path]) -> pd.DataFrame:
    """The slow plain reference: all frames under each other, the quickest row of each trial."""
    rows = pd.concat([read_results(folder) for folder in folders])
    first = rows.sort_values(CIRCUMSTANCES).drop_duplicates("trial")
    return first.sort_values(ORDER, ignore_index=True)


def check_refused(folders: list[Path], out: Path, *fragments: str) -> None:
    """One line with the fragments, and nothing anywhere is touched."""
    place = folders[0].parent
    before = files(place)
    with pytest.raises(HeadcountError) as refusal:
        merge(folders, out)
    line = str(refusal.value)
    assert "\n" not in line
    for fragment in fragments:
        assert fragment in line, line
    assert files(place) == before
