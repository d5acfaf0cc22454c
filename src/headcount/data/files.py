"""A user's own data from a file: .npz or Parquet."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headcount.data.arrays import DataSet, TargetType, data_set
from headcount.errors import InvalidInput

PARTS = ("x", "y", "mask")
# Errors whose message says what is wrong.
READING = (zipfile.BadZipFile, OSError, EOFError, ValueError, MemoryError)


def load(path: Path | str, *, target: TargetType = "auto") -> DataSet:
    """The data set in a file: arrays (.npz) or columns (.parquet) named x, y and, if there is one, mask.

    In Parquet a sequence is a list: of numbers, or of lists of numbers. Lists may differ in length.
    """
    path = Path(path)
    if not path.exists():
        raise InvalidInput(f"{path}: no such file")
    if path.is_dir():
        raise InvalidInput(f"{path}: expected an .npz or .parquet file, got a folder")
    if path.suffix == ".npz":
        parts = _npz(path)
    elif path.suffix in (".parquet", ".pq"):
        parts = _parquet(path)
    else:
        raise InvalidInput(f"{path}: expected an .npz or .parquet file, got {path.suffix or 'no extension'}")
    if not {"x", "y"} <= parts.keys():
        raise InvalidInput(f"{path}: expected x and y, got {', '.join(sorted(parts)) or 'nothing'}")
    try:
        return data_set(parts["x"], parts["y"], parts.get("mask"), name=path.name, target=target)
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None


def _npz(path: Path) -> Mapping[str, Any]:
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path}: expected an .npz as numpy.savez writes it")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] if name in PARTS else None for name in archive.files}
    except Exception as error:  # damaged archives raise many exception types
        if "allow_pickle" in str(error):
            raise InvalidInput(f"{path}: expected arrays of numbers or text, got objects") from None
        reason = str(error).partition("\n")[0] if isinstance(error, READING) else "it is damaged"
        raise InvalidInput(f"{path}: cannot be read: {reason}") from None


def _parquet(path: Path) -> Mapping[str, Any]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise InvalidInput(f"{path}: cannot be read as Parquet: {reason}") from None
    for name in PARTS:
        if name in table.column_names and table[name].null_count:
            raise InvalidInput(f"{path}: {name}: expected no missing values, got {table[name].null_count}")
    return {name: table[name].to_pylist() if name in PARTS else None for name in table.column_names}
