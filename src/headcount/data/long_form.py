"""Tables: one row per token (long form), or one row per sequence with a token in each of some columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.data.named import Parts, check_name, listed
from headcount.errors import InvalidInput
from headcount.validation import shown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Columns:
    """Which columns of a table are what.

    - `id`: tells sequences apart. With it a row is a token, without it a row is a sequence.
    - `time`: orders the tokens of a sequence; by default they are in the order of the rows.
    - `features`: the numbers of a token, by default all other columns; without `id`, the tokens of a row.
      "first:last" stands for all columns from one to the other.
    """

    id: str | None = None
    time: str | None = None
    features: str | Sequence[str] | None = None

    @property
    def given(self) -> bool:
        """Whether any of them is."""
        return (self.id, self.time, self.features) != (None, None, None)


def sequences_in(frame: "pd.DataFrame", columns: Columns, *, y: Any, nan_allowed: bool = False) -> Parts:
    """X and y in a data frame; y is a column, or an array with one entry per sequence."""
    names = [str(name) for name in frame.columns]
    frame = frame.set_axis(names, axis=1)
    if not isinstance(y, str | None):
        own = None
    elif y is None:
        own = check_name("y", "y", names) if "y" in names else None
        if own is None:
            raise InvalidInput(f'y: expected a column, y="COLUMN", one of {listed(names)}; got none')
    else:
        own = check_name("y", y, names)
    if columns.id is None:
        if columns.time is not None or columns.features is None:
            hint = 'or features="FIRST:LAST" if a row is a whole sequence'
            raise InvalidInput(
                f'expected id="COLUMN", the column that tells sequences apart, one of {listed(names)}; {hint}'
            )
        features = _features(columns.features, names)
        numbers = _numbers(frame, features, nan_allowed=nan_allowed)
        return Parts(numbers, y if own is None else frame[own])
    return _long(frame, columns, own, y, names, nan_allowed=nan_allowed)


def _long(
    frame: "pd.DataFrame", columns: Columns, own: str | None, y: Any, names: list[str], *, nan_allowed: bool
) -> Parts:
    assert columns.id is not None
    keys = {"id": columns.id} | ({} if columns.time is None else {"time": columns.time})
    for part, name in keys.items():
        check_name(part, name, names)
        if missing := frame[name].isna().to_numpy().nonzero()[0].tolist():
            raise InvalidInput(
                f"{part}: expected a value in every row, got none in row {missing[0]} of {name}"
            )
    features = _features(columns.features, [name for name in names if name not in (*keys.values(), own)])
    places, sequences = frame[columns.id].factorize()
    order = np.argsort(places, kind="stable")
    if columns.time is not None:
        order = np.lexsort((_times(frame, columns).factorize(sort=True)[0], places))
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    tokens = _numbers(frame, features, nan_allowed=nan_allowed)[order]
    rows = np.split(tokens, starts[1:])
    x = np.stack(rows) if len(set(map(len, rows))) == 1 else rows
    return Parts(x, y if own is None else _one_per_sequence(frame[own].iloc[order], places[order], sequences))


def _features(asked: str | Sequence[str] | None, names: list[str]) -> list[str]:
    """The columns that are asked for: names, or ranges of them."""
    if asked is None:
        if not names:
            raise InvalidInput("features: expected a column besides those of id, time and y, got none")
        return names
    found: list[str] = []
    for name in asked.split(",") if isinstance(asked, str) else asked:
        first, colon, last = str(name).strip().partition(":")
        if not colon or name in names:
            found.append(check_name("features", str(name).strip(), names))
            continue
        begin, end = (names.index(check_name("features", edge, names)) for edge in (first, last))
        found += names[begin : end + 1]
    return found


def _numbers(frame: "pd.DataFrame", features: list[str], *, nan_allowed: bool) -> np.ndarray:
    """The features of every row; the column and the row of what is no number are named."""
    for name in features:
        column = frame[name]
        if column.dtype.kind not in "biuf":
            text = next(iter(column[column.map(lambda value: isinstance(value, str))]), None)
            such = f"text such as {shown(text)}" if text is not None else f"values of type {column.dtype}"
            raise InvalidInput(f"features: expected numbers in column {name}, got {such}")
        missing = np.flatnonzero(column.isna())
        if len(missing) and not nan_allowed:
            cure = '; if rows without numbers are padding: padding="nan"'
            raise InvalidInput(
                f"features: expected a number in every row of column {name}, got {len(missing):,} missing, "
                f"the first in row {missing[0]} (counted from 0){cure}"
            )
    return frame[features].to_numpy(dtype=np.float64)


def _times(frame: "pd.DataFrame", columns: Columns) -> "pd.Series[Any]":
    """The times, as numbers or dates; two rows of one sequence with one time have no order."""
    import pandas as pd

    twice = frame.duplicated([columns.id, columns.time]).to_numpy()
    if twice.any():
        row = frame[[columns.id, columns.time]].astype(object).iloc[int(twice.argmax())]
        sequence, time = row.tolist()
        raise InvalidInput(
            f"time: expected each value once per sequence, got {shown(time)} twice in {shown(sequence)}"
        )
    times = frame[columns.time]
    if times.dtype.kind in "biufmM":
        return times
    try:
        return pd.to_datetime(times, format="ISO8601")
    except (ValueError, TypeError):
        raise InvalidInput(
            f"time: expected numbers or dates such as 2030-01-31, got {shown(times.iloc[0])}"
        ) from None


def _one_per_sequence(y: "pd.Series[Any]", places: np.ndarray, sequences: Any) -> Any:
    """The one value that y has in all rows of a sequence, or in the one row where it has any."""
    grouped = y.groupby(places)
    varied = grouped.nunique().to_numpy() > 1
    if varied.any():
        place = int(varied.argmax())
        first, second = y[places == place].dropna().unique()[:2].tolist()
        raise InvalidInput(
            f"y: expected one value per sequence, got {shown(first)} and {shown(second)} in sequence "
            f"{shown(sequences[[place]].tolist()[0])}"
        )
    return grouped.first()
