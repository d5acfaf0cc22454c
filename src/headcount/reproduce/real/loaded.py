"""Real data that was read in this process, known by a hash of what is in it."""

import hashlib
from typing import Any, TypeVar

import numpy as np

from headcount.errors import InvalidInput

Data = TypeVar("Data")

_loaded: dict[str, Any] = {}


def remember(data: Any, *arrays: np.ndarray) -> str:
    """Keep a data set at hand; returns the fingerprint of the arrays that it is made of."""
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(f"{array.shape} {array.dtype}".encode() + np.ascontiguousarray(array).tobytes())
    fingerprint = hashed.hexdigest()[:16]
    remember_as(fingerprint, data)
    return fingerprint


def remember_as(fingerprint: str, data: Any) -> None:
    """Keep a data set at hand whose fingerprint was found where it was read."""
    _loaded[fingerprint] = data


def loaded(fingerprint: str, kind: type[Data]) -> Data:
    """The data set with this fingerprint."""
    data = _loaded.get(fingerprint)
    if not isinstance(data, kind):
        raise InvalidInput(f"data = {fingerprint!r}: load it before it is trained on")
    return data
