"""A person's own data from a file: .npz or Parquet."""

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
READING = (zipfile.BadZipFile, OSError, EOFError, ValueError, MemoryError)  # errors that say what is wrong


def load(path: Path | str, *, target: TargetType = "auto") -> DataSet:
    """The data set in a file: arrays (.npz) or columns (.parquet) called x, y and, if there is one, mask.

    In Parquet a sequence is a list: of numbers, or of lists of numbers. Lists may differ in length.
    """
    path = Path(path)
    if not path.exists():
        raise InvalidInput(f"{path}: there is no such file")
    if path.is_dir():
        raise InvalidInput(f"{path}: this is a folder; allowed is an .npz or a .parquet file")
    if path.suffix == ".npz":
        parts = _npz(path)
    elif path.suffix in (".parquet", ".pq"):
        parts = _parquet(path)
    else:
        raise InvalidInput(f"{path}: allowed is an .npz or a .parquet file")
    for part in ("x", "y"):
        if part not in parts:
            raise InvalidInput(f"{path}: has no {part!r}; it holds {', '.join(sorted(parts)) or 'nothing'}")
    try:
        return data_set(parts["x"], parts["y"], parts.get("mask"), name=path.name, target=target)
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None


def _npz(path: Path) -> Mapping[str, Any]:
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"{path}: this is no .npz, as numpy.savez writes it")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] if name in PARTS else None for name in archive.files}
    except Exception as error:  # there is no end to what a damaged archive can make its reader say
        if "allow_pickle" in str(error):
            raise InvalidInput(f"{path}: holds objects; allowed are arrays of numbers or text") from None
        reason = str(error).partition("\n")[0] if isinstance(error, READING) else "it is damaged"
        raise InvalidInput(f"{path}: cannot be read: {reason}") from None


def _parquet(path: Path) -> Mapping[str, Any]:
    try:
        table = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).partition("\n")[0].partition(". ")[0]
        raise InvalidInput(f"{path}: cannot be read as Parquet: {reason}") from None
    found = [name for name in PARTS if name in table.column_names]
    if not found:
        return dict.fromkeys(table.column_names)
    for name in found:
        if table[name].null_count:
            raise InvalidInput(
                f"{path}: {name} has {table[name].null_count} missing values; none are allowed"
            )
    return {name: table[name].to_pylist() for name in found}
