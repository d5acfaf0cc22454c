"""X, y and the mask from what holds them together: a Dataset, a DataLoader, named arrays, a data frame.

Types are known by the module that they come from, so that no library is imported to look.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from headcount.data.conversion import as_array
from headcount.data.files import array_in, parts_in
from headcount.data.long_form import Columns, sequences_in
from headcount.data.named import Parts, names_of, no_y, parts_of
from headcount.data.tables import TEXT, frame_of
from headcount.errors import InvalidInput
from headcount.validation import listed

NO_X = "or pass the arrays themselves"  # since there is no argument for its name


def gathered(x: Any, y: Any, mask: Any, columns: Columns, *, nan_allowed: bool = False) -> Parts:
    """The three parts; arrays stay as they are, and a y or a mask that was given is used.

    >>> gathered({"input_ids": [[1, 2]], "attention_mask": [[1, 1]]}, [3], None, Columns())[:3]
    ([[1, 2]], [3], [[1, 1]])
    """
    if isinstance(x, str | os.PathLike):
        return _of_file(Path(x), y, mask, columns, nan_allowed=nan_allowed)
    if columns.given or (isinstance(y, str | None) and _is_frame(x)):
        x = _frame_of(x)
        if columns.given or not _holds_lists(x):
            if mask is not None:
                raise InvalidInput("mask: expected none for a table, whose sequences may differ in length")
            return sequences_in(x, columns, y=y, nan_allowed=nan_allowed)
        x = {str(name): x[name] for name in x.columns}
    parts = _with(_parts(x, _name(y), _name(mask)), y, mask)
    if parts.y is None and (names := x if isinstance(x, Mapping) else getattr(x, "column_names", None)):
        raise no_y(names)
    if parts.y is None or isinstance(parts.y, str):
        raise InvalidInput(f"y: expected one entry per sample, got {parts.y!r}")
    return parts


def _of_file(path: Path, y: Any, mask: Any, columns: Columns, *, nan_allowed: bool) -> Parts:
    """The same from a file, read as on the command line; y and the mask may be names within it, or arrays."""
    if path.suffix.lower() == ".npy":
        x, y, mask = (array_in(Path(part)) if _is_path(part) else part for part in (path, y, mask))
        return gathered(x, y, mask, columns, nan_allowed=nan_allowed)
    if path.is_file() and (path.name.endswith(TEXT) or columns.given):
        try:
            return gathered(frame_of(path), y, mask, columns, nan_allowed=nan_allowed)
        except InvalidInput as problem:
            raise InvalidInput(f"{path}: {str(problem).removeprefix(f'{path}: ')}") from None
    names = {"x": None, "y": _name(y), "mask": _name(mask)}
    own = y is None or _name(y) is not None
    parts = parts_in(path, names, columns, nan_allowed=nan_allowed, needs_y=own, if_no_x=NO_X)
    return _with(parts, y, mask)


def _is_path(given: Any) -> bool:
    return isinstance(given, str | os.PathLike)


def _name(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _with(parts: Parts, y: Any, mask: Any) -> Parts:
    """The parts, with a y and a mask that were given as arrays."""
    parts = parts if isinstance(y, str | None) else parts._replace(y=y)
    if isinstance(mask, str | None):
        return parts
    return parts._replace(mask=mask, origin=replace(parts.origin, doubts=(), inverted=""))


def _parts(x: Any, y: str | None, mask: str | None) -> Parts:
    if _comes_from(x, "torch.utils.data"):
        return _batches(x) if hasattr(x, "batch_sampler") else _items(x)
    if isinstance(x, Mapping):
        if x and all(_comes_from(value, "datasets") for value in x.values()):
            raise InvalidInput(f"x: expected one of the splits {listed(x)}, got all of them")
        return parts_of({str(name): part for name, part in x.items()}, y=y, mask=mask, if_no_x=NO_X)
    if _comes_from(x, "datasets") and hasattr(x, "column_names"):
        return _hugging_face(x, y, mask)
    return Parts(x, y, mask)


def _comes_from(given: Any, package: str) -> bool:
    """Whether the type, or one that it extends, is of this package."""
    return any(f"{base.__module__}.".startswith(f"{package}.") for base in type(given).__mro__)


def _is_frame(given: Any) -> bool:
    """Whether it is a data frame of pandas or polars, or a table of Arrow."""
    return hasattr(given, "columns") and hasattr(given, "shape")


def _frame_of(x: Any) -> Any:
    """A frame of pandas."""
    if hasattr(x, "to_pandas"):
        return x.to_pandas()
    if not _is_frame(x):
        raise InvalidInput(f"x: expected a data frame for id, time and features, got {type(x).__name__}")
    return x


def _holds_lists(frame: Any) -> bool:
    """Whether a cell may be a whole sequence: then columns are x, y and the mask."""
    cells = frame.iloc[0] if len(frame) else ()
    return any(hasattr(cell, "__len__") and not isinstance(cell, str | bytes) for cell in cells)


def _hugging_face(dataset: Any, y: str | None, mask: str | None) -> Parts:
    """The columns of a Dataset, which are lists, whatever format it shows them in."""
    if not hasattr(dataset, "__len__"):
        raise InvalidInput(
            "x: expected a Dataset in memory or on disk, got a stream; take(10_000) and make it one"
        )
    names = names_of(dataset.column_names, x=None, y=y, mask=mask)
    chosen = dataset.select_columns([*names.values()]).with_format("arrow")[:].to_pydict()
    return parts_of({**dict.fromkeys(dataset.column_names), **chosen}, y=y, mask=mask, if_no_x=NO_X)


def _items(dataset: Any) -> Parts:
    """A Dataset of PyTorch: whole tensors where it has them, else one item after the other."""
    if hasattr(dataset, "tensors"):
        return _of_tuple(dataset.tensors)
    if not hasattr(dataset, "__len__"):
        raise InvalidInput("x: expected a Dataset with a length, got a stream; pass a DataLoader of it")
    if not len(dataset):
        raise InvalidInput("x: expected samples, got an empty Dataset")
    samples = [_named(dataset[place]) for place in range(len(dataset))]
    return parts_of({name: [sample[name] for sample in samples] for name in samples[0]}, if_no_x=NO_X)


def _batches(loader: Iterable[Any]) -> Parts:
    """All batches, one after the other; where they differ in length, their masks go on with absent tokens."""
    batches = [parts_of(_named(batch), if_no_x=NO_X) for batch in loader]
    if not batches:
        raise InvalidInput("x: expected batches, got a DataLoader without any")
    xs = [as_array("x", batch.x) for batch in batches]
    ys = None if batches[0].y is None else np.concatenate([as_array("y", batch.y) for batch in batches])
    masks = [None if batch.mask is None else as_array("mask", batch.mask) for batch in batches]
    lengths = {each.shape[1] for each in xs if each.ndim > 1}
    if len(lengths) > 1 and any(each is None for each in masks):
        raise InvalidInput(
            "mask: expected one in every batch, since batches differ in length: (x, y, mask) or a dict with "
            f"attention_mask; got none, and batches of {min(lengths)} to {max(lengths)} tokens"
        )
    known = [each for each in masks if each is not None]
    mask = np.concatenate([_up_to(max(lengths), each) for each in known]) if len(known) == len(xs) else None
    x = np.concatenate([_up_to(max(lengths, default=0), each) for each in xs])
    return Parts(x, ys, mask, batches[0].origin)


def _up_to(length: int, batch: np.ndarray) -> np.ndarray:
    if batch.ndim < 2 or batch.shape[1] == length:
        return batch
    return np.pad(batch, [(0, 0), (0, length - batch.shape[1]), *[(0, 0)] * (batch.ndim - 2)])


def _named(sample: Any) -> Mapping[str, Any]:
    """A sample or a batch by names: (x, y) or (x, y, mask), or a dict."""
    if isinstance(sample, Mapping):
        return sample
    if isinstance(sample, list | tuple):
        parts = _of_tuple(sample)
        named = {"x": parts.x, "y": parts.y, "mask": parts.mask}
        return {name: part for name, part in named.items() if part is not None}
    return {"x": sample}


def _of_tuple(parts: Any) -> Parts:
    if not 1 <= len(parts) <= 3:
        raise InvalidInput(f"x: expected samples (x, y) or (x, y, mask), got {len(parts)} parts each")
    return Parts(*parts)
