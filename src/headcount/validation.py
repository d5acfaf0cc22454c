"""Invalid user input, caught at the boundary: the value in its proper type, or one clear line."""

import math
import reprlib
from collections.abc import Iterable
from numbers import Integral, Real

from headcount.errors import InvalidInput

MAX_NAMES, MAX_LAST, MAX_SHOWN = 12, 3, 120

Rows = tuple[tuple[float, ...], ...]


def shown(value: object) -> str:
    """A value inside a message: short, and on one line whatever it is.

    >>> shown(list(range(100)))
    '[0, 1, 2, 3, 4, 5, ...]'
    """
    return shortened(" ".join(reprlib.repr(value).split()), MAX_SHOWN)


def shortened(text: str, most: int = 240) -> str:
    """The beginning of a text that is too long for a message.

    >>> shortened("abcdef", 5)
    'ab...'
    """
    return text if len(text) <= most else f"{text[: most - 3]}..."


def listed(names: Iterable[object]) -> str:
    """Names for a message: all of a few, the first and the last of many.

    >>> listed("abc"), listed([]), listed(range(99))
    ('a, b, c', 'nothing', '0, 1, 2, 3, 4, 5, 6, 7, 8, …, 96, 97, 98')
    """
    every = list(map(str, names))
    if len(every) > MAX_NAMES:
        every = [*every[: MAX_NAMES - MAX_LAST], "…", *every[-MAX_LAST:]]
    return ", ".join(every) or "nothing"


def expected(name: str, wanted: str, value: object) -> InvalidInput:
    """The error for a value that cannot be used.

    >>> str(expected("heads", "an integer >= 1", 0))
    'heads: expected an integer >= 1, got 0'
    """
    return InvalidInput(f"{name}: expected {wanted}, got {shown(value)}")


def is_integer(value: object) -> bool:
    """A bool counts as 0 or 1 in Python; as a number of anything it is a slip.

    >>> is_integer(3), is_integer(True), is_integer(3.0)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_integer(name: str, value: object, *, at_least: int, at_most: float = math.inf) -> int:
    """The value as an int, where it is one and lies between the two ends.

    >>> check_integer("dimension", 4, at_least=1)
    4
    """
    if isinstance(value, Integral) and is_integer(value) and at_least <= int(value) <= at_most:
        return int(value)
    ends = f">= {at_least}" if at_most == math.inf else f"from {at_least} to {at_most}"
    raise expected(name, f"an integer {ends}", value)


def check_number(
    name: str,
    value: object,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
) -> float:
    """The value as a float, where it is a finite number between the two ends.

    >>> check_number("smallest_angle", 30, at_least=0.0, at_most=180.0)
    30.0
    """
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if math.isfinite(number) and at_least <= number <= at_most and number > above:
        return number
    low = f" > {above:g}" if above > at_least else f" >= {at_least:g}" if at_least > -math.inf else ""
    high = f" <= {at_most:g}" if at_most < math.inf else ""
    raise expected(name, f"a finite number{low}{' and' if low and high else ''}{high}", value)


def check_choice(name: str, value: object, allowed: Iterable[object]) -> None:
    """Refuse a value that is not one of a few.

    >>> check_choice("loss", "squared", ("squared", "cross_entropy"))
    """
    names = tuple(allowed)
    if value not in names:
        raise expected(name, f"one of {', '.join(map(str, names))}", value)


def check_matrix(name: str, value: object, *, rows: int, columns: int) -> Rows:
    """The value as rows of finite floats, one row per coordinate.

    >>> check_matrix("wells", [[0, 1], [1, 0]], rows=2, columns=2)
    ((0.0, 1.0), (1.0, 0.0))
    """
    import numpy as np  # here, since `headcount --help` loads this module and not numpy

    try:
        entries = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise expected(name, f"{rows} vectors of {columns} numbers", value) from None
    if entries.shape != (rows, columns):
        raise InvalidInput(
            f"{name}: expected the shape {(rows, columns)} (dimension {rows}, token_dim {columns}), "
            f"got {entries.shape}"
        )
    if not np.isfinite(entries).all():
        raise expected(name, "finite numbers", value)
    return tuple(tuple(float(entry) for entry in row) for row in entries)
