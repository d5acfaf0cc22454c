"""A user's own data from a file, by the end of its name."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from headcount.data.arrays import DataSet, TargetType, TokenType, data_set
from headcount.data.named import NAME_X, Parts, names_of, no_y, parts_of
from headcount.data.tables import LINES, PARQUET, TEXT, arrow_of, columns_of_lines, ending_of, frame_of
from headcount.errors import InvalidInput

if TYPE_CHECKING:
    from headcount.data.long_form import Columns

TORCH = (".pt", ".pth")
KNOWN = (".npz", ".npy", *PARQUET, *TEXT, *LINES, *TORCH)
OR_ID = 'if a row is a token: id="COLUMN", the column that tells sequences apart'


def load(
    path: Path | str | None = None,
    *,
    x: str | None = None,
    y: str | None = None,
    mask: str | None = None,
    columns: "Columns | None" = None,
    target: TargetType = "auto",
    tokens: TokenType = "auto",
    padding: float | str | None = None,
) -> DataSet:
    """The data set in a file, or in one .npy file for each part.

    - `x`, `y`, `mask`: names within the file, by default the usual ones; without a file, or with an .npy file
      of x, they are .npy files themselves.
    - `columns`: what the columns of a table are (.csv, .tsv, .parquet, .jsonl).

    In Parquet and JSON lines without `columns` a sequence is a list: of numbers, or of lists of numbers.
    """
    if path is None and x is None and y is None:
        raise InvalidInput('expected a file with x and y, or x="FILE" and y="FILE"; got none')
    if path is None or ending_of(Path(path)).endswith(".npy"):
        arrays = {"x": path if x is None else x, "y": y, "mask": mask}
        files = {part: Path(name) for part, name in arrays.items() if name is not None}
        for part in {"x", "y"} - files.keys():
            raise InvalidInput(f'{part}: expected an .npy file, {part}="FILE", got none')
        read = {part: array_in(file) for part, file in files.items()}
        parts, path = Parts(read["x"], read["y"], read.get("mask")), files["x"]
    else:
        path = Path(path)
        parts = parts_in(path, {"x": x, "y": y, "mask": mask}, columns, nan_allowed=padding is not None)
    try:
        return data_set(*parts, name=path.name, target=target, tokens=tokens, padding=padding)
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {problem}") from None


def is_data(path: Path) -> bool:
    """Whether a path has the name of a file that `load` reads.

    >>> is_data(Path("mine.csv.gz")), is_data(Path("spec.toml"))
    (True, False)
    """
    return ending_of(path).endswith(KNOWN)


def _existing(path: Path | str) -> Path:
    path = Path(path)
    if not path.exists():
        raise InvalidInput(f"{path}: no such file")
    if path.is_dir():
        raise InvalidInput(f"{path}: expected a file, got a folder")
    if not is_data(path):
        given = path.suffix or "no extension"
        raise InvalidInput(f"{path}: expected a file of one of {', '.join(KNOWN)}, got {given}")
    return path


def parts_in(
    path: Path | str,
    names: dict[str, str | None],
    columns: "Columns | None" = None,
    *,
    nan_allowed: bool = False,
    needs_y: bool = True,
    if_no_x: str = NAME_X,
) -> Parts:
    """X, y and the mask in a file that holds them together."""
    path = _existing(path)
    asked = columns is not None and columns.given
    try:
        if ending_of(path).endswith(TEXT) or asked:
            from headcount.data.long_form import Columns, sequences_in

            for part in ("x", "mask"):
                if names[part] is not None:
                    raise InvalidInput(f'{part}: expected none for a table: features="a,b" are its tokens')
            frame, y = frame_of(path), names["y"]
            return sequences_in(frame, columns or Columns(), y=y, nan_allowed=nan_allowed)
        if ending_of(path).endswith(PARQUET + LINES):
            if_no_x = f"{if_no_x}; {OR_ID}"
        named = _named(path, names)
        parts = parts_of(named, **names, if_no_x=if_no_x)
        if parts.y is None and needs_y:
            raise no_y(named)
        return parts
    except InvalidInput as problem:
        raise InvalidInput(f"{path}: {str(problem).removeprefix(f'{path}: ')}") from None


def _named(path: Path, names: dict[str, str | None]) -> Mapping[str, Any]:
    """The arrays of a file by their names; None for those that nobody needs."""
    if ending_of(path).endswith(".npz"):
        return _npz(path, names)
    if ending_of(path).endswith(PARQUET):
        return _parquet(path, names)
    return _torch(path) if ending_of(path).endswith(TORCH) else columns_of_lines(path)


def _npz(path: Path, names: dict[str, str | None]) -> Mapping[str, Any]:
    if not zipfile.is_zipfile(path):
        raise InvalidInput(
            f"{path}: expected an .npz as numpy.savez writes it; this is another file, or damaged"
        )
    try:
        with np.load(path, allow_pickle=False) as archive:
            wanted = names_of(archive.files, **names).values()
            return {name: archive[name] if name in wanted else None for name in archive.files}
    except InvalidInput:
        raise
    except Exception as error:  # damaged archives raise many exception types
        _refuse(path, error)


def array_in(path: Path) -> np.ndarray:
    """The array in an .npy file."""
    if not ending_of(path).endswith(".npy"):
        raise InvalidInput(f"{path}: expected an .npy file")
    try:
        with _existing(path).open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except InvalidInput:
        raise
    except Exception as error:
        _refuse(path, error)


def _refuse(path: Path, error: Exception) -> NoReturn:
    if "allow_pickle" in str(error) or "Object arrays" in str(error):
        raise InvalidInput(f"{path}: expected arrays of numbers or text, got objects") from None
    reason = str(error).partition("\n")[0] or type(error).__name__
    raise InvalidInput(f"{path}: the file is damaged: {reason}") from None


def _parquet(path: Path, names: dict[str, str | None]) -> Mapping[str, Any]:
    table = arrow_of(path)
    wanted = names_of(table.column_names, **names).values()
    for name in wanted:
        if count := table[name].null_count:
            first = table[name].is_null().to_pylist().index(True)
            where = f"got {count:,}, the first in sample {first} (counted from 0)"
            raise InvalidInput(f"{path}: {name}: expected no missing values, {where}")
    return {name: table[name].to_pylist() if name in wanted else None for name in table.column_names}


def _torch(path: Path) -> Mapping[str, Any]:
    from headcount.extras import needed

    torch = needed("torch", extra="torch", purpose=f"{path}: a file of tensors")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # as with archives
        if "weights_only" in str(error).lower() or "WeightsUnpickler" in str(error):
            content = None
        else:
            _refuse(path, error)
    if isinstance(content, list | tuple) and 2 <= len(content) <= 3:
        content = dict(zip(("x", "y", "mask"), content, strict=False))
    if not isinstance(content, Mapping) or not all(isinstance(name, str) for name in content):
        raise InvalidInput(f"{path}: expected tensors: a dict with x and y, or (x, y), or (x, y, mask)")
    return content
