"""Values of NumPy, pandas, PyTorch, JAX or plain lists as NumPy arrays."""

from numbers import Number
from typing import Any

import numpy as np

from headcount.errors import InvalidInput
from headcount.validation import shown


def as_array(name: str, given: Any, *, entry: str = "sample") -> np.ndarray:
    """The values as an array of numbers, bools or text; `entry` is what messages call one of them.

    >>> as_array("y", ["cat", "dog"])
    array(['cat', 'dog'], dtype='<U3')
    """
    _check_nothing_masked(name, given)
    given = unwrapped(given)
    if isinstance(given, list | tuple):
        given = [unwrapped(entry) for entry in given]
    try:
        array = np.asarray(given)
        if array.dtype.kind == "T" or (array.dtype.kind in "US" and isinstance(given, list)):
            array = np.asarray(given, object)  # of a list, NumPy turns None, nan and numbers into text
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        if "inhomogeneous" in reason:
            reason = (
                f"its rows differ in size, or some are missing, in {entry} {_uneven(given)} (counted from 0)"
            )
        raise InvalidInput(f"{name}: expected an array, but {reason}") from None
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind == "O" and array.size and all(isinstance(entry, str) for entry in array.flat):
        return array.astype(str)
    if array.dtype.kind not in "biufUS":
        such = f", such as {_odd_one(name, array, entry)}" if array.dtype.kind == "O" and array.size else ""
        raise InvalidInput(
            f"{name}: expected numbers, or text for labels, got values of type {array.dtype}{such}"
        )
    return array


def unwrapped(given: Any) -> Any:
    """The values of a tensor, a DataFrame or a Series in NumPy's terms; anything else as it is.

    A Series or an array of sequences, or a DataFrame with one column of them, becomes a list of these.
    """
    if hasattr(given, "detach"):  # a PyTorch tensor, perhaps with a gradient or on another device
        tensor = given.detach().cpu()
        return np.asarray(tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor)
    if isinstance(given, np.ndarray) and given.dtype.kind == "O" and given.ndim == 1:
        return list(given) if len(given) and isinstance(given[0], list | tuple | np.ndarray) else given
    if not hasattr(given, "to_numpy"):
        return given
    cells = given.to_numpy()
    if cells.dtype.kind != "O" or not cells.size:
        return cells
    if all(isinstance(cell, Number) for cell in cells.flat):
        return np.array(cells.tolist())
    if isinstance(cells.flat[0], str | bytes) or not hasattr(cells.flat[0], "__len__"):
        return cells
    return (cells[:, 0] if cells.ndim == 2 and cells.shape[1] == 1 else cells).tolist()


def _odd_one(name: str, array: np.ndarray, entry: str) -> str:
    """The first value that is neither text nor a number, or the first that is not text; and where it is."""
    values = list(array.flat)
    others = [place for place, value in enumerate(values) if not isinstance(value, str)]
    missing = [place for place in others if not _is_present(values[place])]
    odd = (missing or others)[0]
    if not array.ndim:
        return shown(values[odd])
    axes = (entry, "token", "feature") if name == "x" else (entry, "output")
    found = zip(axes, np.unravel_index(odd, array.shape), strict=False)
    more = f"; {len(missing):,} such values" if len(missing) > 1 else ""
    where = ", ".join(f"{axis} {place}" for axis, place in found)
    return f"{shown(values[odd])} in {where} (counted from 0){more}"


def _is_present(value: object) -> bool:
    return isinstance(value, Number) and bool(value == value)  # nan stands for what is missing


def _uneven(rows: Any) -> int:
    """The first row in which sizes differ, or whose size is not that of most before it."""
    shapes: list[tuple[int, ...]] = []
    for place, row in enumerate(rows):
        try:
            shapes.append(np.asarray(row).shape)
        except (TypeError, ValueError):
            return place
    common = max(shapes, key=shapes.count)
    return next((place for place, shape in enumerate(shapes) if shape != common), 0)


def _check_nothing_masked(name: str, given: Any) -> None:
    """Refuse masked arrays: NumPy would drop their mask without a word."""
    masked = map(np.ma.is_masked, given) if isinstance(given, list | tuple) else [np.ma.is_masked(given)]
    if any(masked):
        cure = "pass `mask` for tokens that are absent" if name.startswith("x") else "leave those samples out"
        raise InvalidInput(f"{name}: expected no masked values, got a masked array; fill them, and {cure}")
