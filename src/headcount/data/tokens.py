"""Tokens as a model reads them: vectors of comparable size, and which of them are there."""

import math
import os
from collections.abc import Sequence
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from headcount.data.scale import scale_of
from headcount.errors import InvalidInput
from headcount.validation import shown

MAX_ONE_HOT = 256
CODE_SIZE = 64
COPIES = 4  # of the tokens in float32: standardised in float64, in the data set, in its splits
ALLOWED = "allowed are numbers [samples, length, token_dim] or [samples, length]"


class Tokens(NamedTuple):
    """Sequences, and which tokens are there where lengths differ."""

    x: Float[np.ndarray, "sample token token_dim"]
    mask: Bool[np.ndarray, "sample token"] | None


def tokens_of(x: Any, mask: Any) -> Tokens:
    """X as vectors, standardised where they are numbers and coded where they are whole-number tokens."""
    values, mask = _arrays(x, mask)
    there = np.ones(values.shape[:2], bool) if mask is None else mask
    if values.ndim == 2 and values.dtype.kind in "iub":
        return Tokens(_coded(values, there), mask)
    numbers = values.reshape(*values.shape[:2], -1)
    if not numbers.shape[2]:
        raise InvalidInput(f"x has the shape {values.shape}: a token needs at least one number")
    _fits_memory(numbers.shape)
    numbers = numbers.astype(np.float64)
    seen = numbers[there]
    if not np.isfinite(seen).all():
        raise InvalidInput(f"x holds {shown(float(seen[~np.isfinite(seen)][0]))}: allowed are finite numbers")
    scale = scale_of(seen)
    if scale.steady.all():
        how = "is constant" if scale.constant.all() else "changes by no more than rounding"
        raise InvalidInput(f"x {how} ({shown(float(seen[0, 0]))}): there is nothing to learn from")
    scaled = scale.standardised(np.where(there[..., None], numbers, 0))
    return Tokens(np.where(there[..., None], scaled, 0).astype(np.float32), mask)


def as_array(name: str, given: Any) -> np.ndarray:
    """The values as a NumPy array of numbers, truth values or text."""
    _nothing_hidden(name, given)
    for step in ("detach", "cpu"):
        given = getattr(given, step)() if hasattr(given, step) else given
    if str(getattr(given, "dtype", "")) == "torch.bfloat16":
        given = given.float()
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        uneven = "inhomogeneous" in str(error)
        reason = "its rows differ in size, or some are missing" if uneven else str(error).partition("\n")[0]
        raise InvalidInput(f"{name} is not an array: {reason}") from None
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype.kind == "T" or _is_text(array):
        return array.astype(str)
    if array.dtype.kind not in "biufUS":
        such = f", such as {shown(_odd_one(array))}" if array.dtype.kind == "O" else ""
        raise InvalidInput(
            f"{name} holds values of type {array.dtype}{such}: allowed are numbers, or text for labels"
        )
    return array


def _is_text(array: np.ndarray) -> bool:
    return array.dtype.kind == "O" and array.size > 0 and all(isinstance(entry, str) for entry in array.flat)


def _odd_one(array: np.ndarray) -> object:
    """The first entry that is neither text nor a number; where there is none, the first that is no text."""
    no_text = [entry for entry in array.flat if not isinstance(entry, str)]
    return next((entry for entry in no_text if not isinstance(entry, Number)), next(iter(no_text), None))


def _nothing_hidden(name: str, given: Any) -> None:
    """Refuse masked arrays: NumPy would drop what they hide without a word."""
    hidden = map(np.ma.is_masked, given) if isinstance(given, list | tuple) else [np.ma.is_masked(given)]
    if any(hidden):
        cure = "say which tokens are there with `mask`" if name.startswith("x") else "leave those samples out"
        raise InvalidInput(f"{name} is a masked array with values hidden in it: fill them, and {cure}")


def _fits_memory(shape: tuple[int, ...]) -> None:
    """Refuse tokens whose copies, here and in the splits, would fill the memory of this machine."""
    needed = COPIES * 4 * math.prod(shape)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise InvalidInput(
            f"x has {shape[0]:,} samples of {shape[1]:,} tokens of {shape[2]:,} numbers: they need at least "
            f"{needed / 1e9:,.0f} GB, and this machine has {memory / 1e9:,.0f} GB; fewer samples are allowed"
        )


def _arrays(x: Any, mask: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """X in one array, and the mask where it hides anything."""
    if isinstance(x, list | tuple) and _differ_in_length(x):
        if mask is not None:
            raise InvalidInput("mask is given, but x is a list of sequences that have lengths of their own")
        return _padded([as_array(f"x, in sample {place},", sequence) for place, sequence in enumerate(x)])
    values = as_array("x", x)
    _no_text(values)
    if values.ndim not in (2, 3):
        raise InvalidInput(f"x has the shape {values.shape}: {ALLOWED}")
    if 0 in values.shape:
        raise InvalidInput(f"x has the shape {values.shape}: there is nothing in it")
    return values, None if mask is None else _checked(as_array("mask", mask), values.shape[:2])


def _differ_in_length(sequences: Sequence[Any]) -> bool:
    return len({_length(sequence) for sequence in sequences}) > 1


def _length(sequence: Any) -> int | None:
    try:
        return len(sequence)
    except TypeError:  # a single number
        return None


def _no_text(values: np.ndarray) -> None:
    if values.dtype.kind in "US":
        raise InvalidInput(f"x has text: {ALLOWED}")


def _checked(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    if mask.shape != shape:
        raise InvalidInput(f"mask has the shape {mask.shape}: x needs {shape}")
    if not np.isin(mask, (0, 1)).all():
        odd = shown(mask[~np.isin(mask, (0, 1))][0].item())
        raise InvalidInput(f"mask holds {odd}: allowed are true and false, or 1 and 0")
    there = mask.astype(bool)
    if not there.any(axis=1).all():
        raise InvalidInput(
            f"mask hides every token of sample {int(there.any(axis=1).argmin())}: one must be there"
        )
    return None if there.all() else there


def _padded(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of different lengths in one array, zeros behind their ends, and which tokens are there."""
    for sequence in sequences:
        _no_text(sequence)
    scalars = [place for place, sequence in enumerate(sequences) if not sequence.ndim]
    if scalars:
        raise InvalidInput(f"x has no sequence in sample {scalars[0]}: {ALLOWED}")
    lengths = np.array([len(sequence) for sequence in sequences])
    if not lengths.all():
        raise InvalidInput(f"x has no token in sample {int(lengths.argmin())}: one must be there")
    shapes = {sequence.shape[1:] for sequence in sequences}
    if len(shapes) > 1 or len(shapes.pop()) > 1:
        raise InvalidInput("x is a list of sequences whose tokens differ in size: they need one size")
    padded = np.zeros((len(sequences), lengths.max(), *sequences[0].shape[1:]), np.result_type(*sequences))
    for place, sequence in enumerate(sequences):
        padded[place, : len(sequence)] = sequence
    return padded, np.arange(lengths.max()) < lengths[:, None]


def _coded(values: np.ndarray, there: np.ndarray) -> Float[np.ndarray, "sample token code"]:
    """Whole-number tokens on axes of their own; many of them as random signs, nearly at right angles.

    All entries have a mean square of 1, as standardised features have: a model starts from that size.
    """
    vocabulary, places = np.unique(values[there], return_inverse=True)
    if len(vocabulary) < 2:
        raise InvalidInput(f"x is constant ({shown(vocabulary[0].item())}): there is nothing to learn from")
    _fits_memory((*values.shape, len(vocabulary) if len(vocabulary) <= MAX_ONE_HOT else CODE_SIZE))
    if len(vocabulary) <= MAX_ONE_HOT:
        codes = np.sqrt(len(vocabulary)) * np.eye(len(vocabulary))
    else:
        codes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(vocabulary), CODE_SIZE))
    x = np.zeros((*values.shape, codes.shape[1]), np.float32)
    x[there] = codes[places]
    return x
