"""Named arrays of an .npz."""

import zipfile
from collections.abc import Collection
from pathlib import Path

import numpy as np


def arrays_in(path: Path, names: Collection[str]) -> dict[str, np.ndarray] | None:
    """Those of the named arrays that the file has, read once; None if it is damaged or not an .npz."""
    if not zipfile.is_zipfile(path):
        return None
    try:
        with np.load(path, allow_pickle=False) as archive:
            parts = {name: archive[name] for name in names if name in archive.files}
    except Exception:  # damaged archives raise many exception types
        return None
    return parts if all(isinstance(part, np.ndarray) for part in parts.values()) else None
