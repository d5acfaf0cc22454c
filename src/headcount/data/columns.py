"""Columns of a table as numbers: what is no number is named by its column and its row."""

from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.errors import InvalidInput
from headcount.validation import listed, shown

if TYPE_CHECKING:
    import pandas as pd

# What pandas and Excel call the numbers of rows, once they are in a file.
INDEX_NAMES = ("", "index", "level_0", "__index_level_0__")


def numbers_in(
    frame: "pd.DataFrame", names: list[str], *, nan_allowed: bool, rows_are_tokens: bool = False
) -> np.ndarray:
    """The numbers of these columns; where some are missing, only NaN that may be padding is allowed.

    With `rows_are_tokens` that is a row without any number, otherwise each number is a token by itself.
    """
    for name in names:
        if frame[name].dtype.kind not in "biuf":
            raise _no_numbers(name, frame[name])
    missing = frame[names].isna().to_numpy()
    throughout = missing.all(axis=1, keepdims=True) if rows_are_tokens else missing
    if missing.any() and not nan_allowed:
        raise _missing(names, missing, throughout & missing)
    return frame[names].to_numpy(dtype=np.float64)


def doubts_of_columns(
    names: list[str], numbers: np.ndarray, *, order: np.ndarray, places: np.ndarray, ordered: bool
) -> tuple[str, ...]:
    """Columns that are features since nobody said otherwise, and look like numbers of rows or like the time.

    - `order`: of the rows, by sequence; `places`: the sequence of each, in this order.
    - `ordered`: whether a column for the time is known.
    """
    indices = indices_among(names, numbers)
    times = [] if ordered else times_among(names, numbers[order], places)
    times = [name for name in times if name not in indices]
    others = ",".join(name for name in names if name not in indices)
    without = f'features="{others}"' if others else "leave it out"
    about = {
        f"{listed(indices)} looks like the number of the row; if it is: {without}": indices,
        f"{listed(times)} increases within every sequence; if it is the time of its tokens: "
        f'time="{next(iter(times), "")}"': times,
    }
    return tuple(f"features: {line}" for line, found in about.items() if found)


def indices_among(names: list[str], numbers: np.ndarray) -> list[str]:
    """The columns that look like the numbers of rows, by their names or because they count them.

    >>> indices_among(["Unnamed: 0", "a", "n"], np.array([[7, 3, 1], [9, 5, 2]]))
    ['Unnamed: 0', 'n']
    """
    count = np.arange(len(numbers))
    return [
        name
        for name, column in zip(names, numbers.T, strict=True)
        if name.startswith("Unnamed:")
        or name in INDEX_NAMES
        or any(np.array_equal(column, count + first) for first in (0, 1))
    ]


def times_among(names: list[str], numbers: np.ndarray, places: np.ndarray) -> list[str]:
    """The columns that increase within every sequence, where rows of a sequence follow each other.

    >>> times_among(["t", "a"], np.array([[0, 3], [1, 5], [0, 9], [1, 6]]), np.array([0, 0, 1, 1]))
    ['t']
    """
    within = np.diff(places) == 0
    increases = (np.diff(numbers, axis=0)[within] > 0).all(axis=0) & within.any()
    return [name for name, found in zip(names, increases, strict=True) if found]


def _no_numbers(name: str, column: "pd.Series[Any]") -> InvalidInput:
    """The first value of a column that is no number, and its row."""
    import pandas as pd

    texts = column.map(lambda value: isinstance(value, str)).to_numpy(dtype=bool)
    if not texts.any():
        return InvalidInput(f"features: expected numbers in column {name}, got values of type {column.dtype}")
    odd = texts & pd.to_numeric(column.where(texts), errors="coerce").isna().to_numpy()
    row = int((odd if odd.any() else texts).argmax())
    return InvalidInput(
        f"features: expected numbers in column {name}, got text such as {shown(column.iloc[row])} "
        f"in row {row} (counted from 0)"
    )


def _missing(names: list[str], missing: np.ndarray, padding: np.ndarray) -> InvalidInput:
    """Where the first number is missing that is no padding, or if all may be padding, the first of these."""
    stray = missing & ~padding
    both = bool(stray.any() and padding.any())
    bad = stray if both else missing
    row, column = np.argwhere(bad)[0].tolist()
    count = int(bad[:, column].sum())
    line = (
        f"features: expected a number in every row of column {names[column]}, got {count:,} missing, the "
        f"first in row {row} (counted from 0)"
    )
    if both:
        line += f"; and {padding.all(axis=1).sum():,} rows without any number"
    if padding.any():
        line += f'; if {"they are" if both else "rows without numbers are"} padding: padding="nan"'
    return InvalidInput(line)
