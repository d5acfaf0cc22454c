"""Values from a person's hands, checked at the boundary: the value as it is meant, or one clear line."""

import math
import reprlib

import numpy as np

from headcount.errors import InvalidInput

Rows = tuple[tuple[float, ...], ...]


def shown(value: object) -> str:
    """A value inside a message: short, and on one line whatever it is.

    >>> shown(list(range(100)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    return " ".join(reprlib.repr(value).split())


def is_whole_number(value: object) -> bool:
    """A truth value counts as 0 or 1 in Python; as a number of anything it is a slip.

    >>> is_whole_number(3), is_whole_number(True), is_whole_number(3.0)
    (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def whole_number(name: str, value: object, *, at_least: int, at_most: float = math.inf) -> int:
    """The value as an int, where it is one and between the two ends.

    >>> whole_number("dimension", 4, at_least=1)
    4
    """
    if isinstance(value, int | np.integer) and is_whole_number(value) and at_least <= value <= at_most:
        return int(value)
    ends = f"from {at_least} up" if at_most == math.inf else f"from {at_least} to {at_most}"
    raise InvalidInput(f"{name} = {shown(value)}: allowed is a whole number {ends}")


def finite_number(
    name: str,
    value: object,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """The value as a float, where it is a finite number between the two ends.

    >>> finite_number("smallest_angle", 30, at_least=0.0, at_most=180.0)
    30.0
    """
    number = (
        float(value)
        if isinstance(value, int | float | np.number) and not isinstance(value, bool)
        else math.nan
    )
    if math.isfinite(number) and at_least <= number <= at_most and number > above:
        return number
    least = f"above {above:g}" if above > at_least else f"from {at_least:g}"
    most = "" if at_most == math.inf else f" to {at_most:g}"
    raise InvalidInput(f"{name} = {shown(value)}: allowed is a finite number {least}{most}")


def matrix(name: str, value: object, *, rows: int, columns: int) -> Rows:
    """The value as rows of finite floats, one row per coordinate.

    >>> matrix("wells", [[0, 1], [1, 0]], rows=2, columns=2)
    ((0.0, 1.0), (1.0, 0.0))
    """
    try:
        entries = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{name} {shown(value)} is not possible: {rows} vectors of {columns} numbers are needed"
        ) from None
    if entries.shape != (rows, columns):
        raise InvalidInput(
            f"{name} of shape {entries.shape} is not possible: dimension {rows} and token_dim {columns} "
            f"need the shape {(rows, columns)}"
        )
    if not np.isfinite(entries).all():
        raise InvalidInput(f"{name} {shown(value)} is not possible: every entry must be finite")
    return tuple(tuple(float(entry) for entry in row) for row in entries)
