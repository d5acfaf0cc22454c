"""Tables: one row per token (long form), or one row per sequence with a token in each of some columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headcount.data.columns import doubts_of_columns, numbers_in
from headcount.data.named import Parts, check_name, usual_name
from headcount.data.summary import Origin
from headcount.errors import InvalidInput
from headcount.validation import listed, shown

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
    frame, levels = _with_levels(frame)
    names = list(frame.columns)
    if not len(frame):
        raise InvalidInput("expected a row for every token or sequence, got a table without rows")
    if y is None:
        own = usual_name("y", names)
        if own is None:
            raise InvalidInput(f'y: expected a column, y="COLUMN", one of {listed(names)}; got none')
    else:
        own = check_name("y", y, names) if isinstance(y, str) else None
    if columns.id is not None:
        return _long(frame, columns, own, y, levels, nan_allowed=nan_allowed)
    if columns.time is not None or columns.features is None:
        hint = 'or features="FIRST:LAST" if a row is a whole sequence'
        raise InvalidInput(
            f'expected id="COLUMN", the column that tells sequences apart, one of {listed(names)}; {hint}'
        )
    tokens = _features(columns.features, names)
    numbers = numbers_in(frame, tokens, nan_allowed=nan_allowed)
    origin = Origin(tokens=tuple(tokens), unused=_besides(names, own, *tokens))
    return Parts(numbers, y if own is None else frame[own], origin=origin)


def _with_levels(frame: "pd.DataFrame") -> "tuple[pd.DataFrame, tuple[str, ...]]":
    """The frame with the named levels of its index as columns, and their names; all names are text."""
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if frame.columns.has_duplicates:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InvalidInput(f"expected columns of different names, got {shown(twice)} twice")
    named = [name for name in frame.index.names if name is not None and str(name) not in frame.columns]
    frame = frame.reset_index(level=named) if named else frame
    levels = tuple(map(str, named))
    return frame.rename(columns=dict(zip(named, levels, strict=True))), levels


def _long(
    frame: "pd.DataFrame",
    columns: Columns,
    own: str | None,
    y: Any,
    levels: tuple[str, ...],
    *,
    nan_allowed: bool,
) -> Parts:
    assert columns.id is not None
    names = list(frame.columns)
    keys = {"id": columns.id} | ({} if columns.time is None else {"time": columns.time})
    for part, name in keys.items():
        check_name(part, name, names)
        if missing := frame[name].isna().to_numpy().nonzero()[0].tolist():
            raise InvalidInput(
                f"{part}: expected a value in every row, got none in row {missing[0]} of {name}"
            )
    free = _besides(names, own, *keys.values())
    features = _features(columns.features, list(free), by_default=list(_besides(free, *levels)))
    places, sequences = frame[columns.id].factorize()
    order = np.argsort(places, kind="stable")
    if columns.time is not None:
        order = np.lexsort((_times(frame, columns).factorize(sort=True)[0], places))
    starts = np.flatnonzero(np.diff(places[order], prepend=-1))
    tokens = numbers_in(frame, features, nan_allowed=nan_allowed, rows_are_tokens=True)
    rows = np.split(tokens[order], starts[1:])
    x = np.stack(rows) if len(set(map(len, rows))) == 1 else rows
    doubts: tuple[str, ...] = ()
    if columns.features is None:
        ordered = columns.time is not None
        doubts = doubts_of_columns(features, tokens, order=order, places=places[order], ordered=ordered)
    unused = _besides(free, *levels, *features)
    targets = y if own is None else _one_per_sequence(frame[own].iloc[order], places[order], sequences)
    return Parts(x, targets, origin=Origin(tuple(features), unused=unused, doubts=doubts))


def _besides(names: Sequence[str], *used: str | None) -> tuple[str, ...]:
    return tuple(name for name in names if name not in used)


def _features(
    asked: str | Sequence[str] | None, names: list[str], *, by_default: list[str] | None = None
) -> list[str]:
    """The columns that are asked for: names, or ranges of them."""
    if asked is None:
        if not by_default:
            raise InvalidInput("features: expected a column besides those of id, time and y, got none")
        return by_default
    found: list[str] = []
    for name in asked.split(",") if isinstance(asked, str) else asked:
        first, colon, last = str(name).strip().partition(":")
        if not colon or name in names:
            found.append(check_name("features", str(name).strip(), names))
            continue
        begin, end = (names.index(check_name("features", edge, names)) for edge in (first, last))
        if begin > end:
            raise InvalidInput(
                f"features: expected the first column and then the last, {last}:{first}, got {first}:{last}"
            )
        found += names[begin : end + 1]
    return found


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
    found = grouped.first()
    if found.isna().any():
        place = int(found.isna().to_numpy().argmax())
        raise InvalidInput(
            "y: expected a value in every sequence, got none in sequence "
            f"{shown(sequences[[place]].tolist()[0])}"
        )
    return found
