"""A model as one .npz file: its architecture as JSON, and one array per parameter. No pickle."""

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np

from headcount.errors import InvalidInput, StorageError
from headcount.models.architecture import Architecture
from headcount.validation import expected

Model = TypeVar("Model")

FORMAT = 1
HEADER = "headcount"  # the entry that holds the format and the architecture
DTYPES = (np.float16, np.float32, np.float64)  # those that .npz keeps exactly


def named_leaves(model: object) -> dict[str, np.ndarray]:
    """The parameters by name, in the order of the tree: `encoder.weights.0`, `attention.query`, …"""
    paths = jax.tree.leaves_with_path(model)
    return {jax.tree_util.keystr(path, simple=True, separator="."): np.asarray(leaf) for path, leaf in paths}


def save(model: object, architecture: Architecture, path: str | Path) -> None:
    """Write the file whole or not at all: under a temporary name, flushed to disk, then renamed."""
    leaves = named_leaves(model)
    for name, leaf in leaves.items():
        if leaf.dtype not in DTYPES:
            raise expected(name, "float16, float32 or float64 parameters", leaf.dtype.name)
    header = {"format": FORMAT, "architecture": asdict(architecture)}
    text = json.dumps(header, default=lambda number: number.item())  # NumPy numbers are fine as sizes
    path = Path(path)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.partial")
    try:
        with temporary.open("xb") as file:
            np.savez(file, allow_pickle=False, **{HEADER: np.array(text)}, **leaves)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def load(path: str | Path, blank: Callable[[Architecture], Model]) -> Model:
    """The model in a file; `blank` makes one of the same architecture, whose parameters are replaced."""
    header, arrays = _read(Path(path))
    found = header.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise InvalidInput(f"{path}: format {found} of a later headcount; this one reads up to {FORMAT}")
    try:
        described: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in header["architecture"].items()
        }
    except (KeyError, AttributeError):
        raise InvalidInput(f"{path}: damaged (no architecture)") from None
    if unknown := described.keys() - {field.name for field in fields(Architecture)}:
        raise InvalidInput(
            f"{path}: damaged, or of a later headcount (unknown: {', '.join(sorted(unknown))})"
        )
    try:
        model = blank(Architecture(**described))
    except (InvalidInput, TypeError) as error:
        raise InvalidInput(f"{path}: damaged ({error})") from None
    shapes = {name: leaf.shape for name, leaf in named_leaves(model).items()}
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise InvalidInput(f"{path}: damaged (its parameters are not those of its architecture)")
    return jax.tree.unflatten(jax.tree.structure(model), [arrays[name] for name in shapes])


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
            header = json.loads(str(arrays.pop(HEADER)))
            return {**header}, arrays
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from error
    except Exception as error:  # damaged archives raise many exception types
        raise InvalidInput(f"{path}: damaged, or not a saved model") from error
