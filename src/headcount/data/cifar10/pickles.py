"""Pickled batches, read without running anything that they name."""

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headcount.validation import shown


def unpickled(content: bytes) -> Any:
    """Numbers, text, lists and dictionaries; a uint8 array comes as a `PickledArray`."""
    return _BatchUnpickler(io.BytesIO(content), encoding="bytes").load()


class PickledArray:
    """An array under construction: NumPy pickles an empty one first, then its content."""

    def __init__(self, *_: Any) -> None:
        self.array: np.ndarray = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_columns, content = state
        if not isinstance(kind, _PickledUint8):
            raise pickle.UnpicklingError("an array without a type; expected uint8")
        self.array = np.frombuffer(content, np.uint8).reshape(shape, order="F" if by_columns else "C")


class _PickledUint8:
    """The type of an array. For a single byte the rest of its state (byte order, fields) is ignored."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in ("u1", b"u1"):
            raise pickle.UnpicklingError(f"an array of type {shown(code)}; expected 'u1', uint8")

    def __setstate__(self, state: Any) -> None:
        pass


class _BatchUnpickler(pickle.Unpickler):
    """Refuses any name outside `STAND_INS` before it is used.

    Even the names that an array needs are replaced: NumPy's own accept every type, objects included, and
    `encode` every codec. Each stand-in can do one thing only.
    """

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name."""
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(f"it names {shown(name)} of {shown(module)}; nothing was run")
        return STAND_INS[module, name]


class _StandIn:
    """A function that a pickle can call but not modify: that opcode ends in `__setstate__`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("it modifies a function; nothing was run")


def _latin1(text: str, encoding: str) -> bytes:
    """Python 3 writes bytes as text under protocol 2, which has no bytes."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in {shown(encoding)}; expected 'latin1'")
    return str.encode(text, "latin1")


def _never(*_: Any) -> None:
    raise pickle.UnpicklingError("it constructs an array directly; nothing was run")


STAND_INS: Mapping[tuple[str, str], _StandIn] = {
    ("_codecs", "encode"): _StandIn(_latin1),
    ("numpy", "dtype"): _StandIn(_PickledUint8),
    ("numpy", "ndarray"): _StandIn(_never),
    ("numpy.core.multiarray", "_reconstruct"): _StandIn(PickledArray),
    ("numpy._core.multiarray", "_reconstruct"): _StandIn(PickledArray),
}
