"""Tokens as a model reads them: vectors of comparable size, and a mask of those that are present."""

import math
import os
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from headcount.data.conversion import as_array, unwrapped
from headcount.data.scale import scale_of
from headcount.errors import InvalidInput
from headcount.validation import expected, shown

MAX_ONE_HOT = 256
CODE_SIZE = 64
COPIES = 4  # of the tokens in float32: standardised in float64, in the data set, in its splits
LAYOUT = "numbers [samples, length, token_dim] or [samples, length]"


def tokens_of(
    x: Any, mask: Any
) -> tuple[Float[np.ndarray, "sample token token_dim"], Bool[np.ndarray, "sample token"] | None]:
    """X as vectors, and a mask where lengths differ: numbers are standardised, integer tokens get codes."""
    values, mask = _arrays(x, mask)
    there = np.ones(values.shape[:2], bool) if mask is None else mask
    if values.ndim == 2 and values.dtype.kind in "iub":
        return _coded(values, there), mask
    numbers = values.reshape(*values.shape[:2], -1)
    if not numbers.shape[2]:
        raise InvalidInput(f"x: expected at least one number per token, got the shape {values.shape}")
    _fits_memory(numbers.shape)
    numbers = numbers.astype(np.float64)
    seen = numbers[there]
    if not np.isfinite(seen).all():
        raise expected("x", "finite numbers", float(seen[~np.isfinite(seen)][0]))
    scale = scale_of(seen)
    if scale.steady.all():
        how = "is constant" if scale.constant.all() else "varies only by rounding"
        raise InvalidInput(f"x {how} ({shown(float(seen[0, 0]))}): there is nothing to learn from")
    scaled = scale.standardised(np.where(there[..., None], numbers, 0))
    return np.where(there[..., None], scaled, 0).astype(np.float32), mask


def _fits_memory(shape: tuple[int, ...]) -> None:
    """Refuse tokens whose copies, here and in the splits, would exceed the memory of this machine."""
    needed = COPIES * 4 * math.prod(shape)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise InvalidInput(
            f"x: {shape[0]:,} samples of {shape[1]:,} tokens of {shape[2]:,} numbers need at least "
            f"{needed / 1e9:,.0f} GB; this machine has {memory / 1e9:,.0f} GB: use fewer samples"
        )


def _arrays(x: Any, mask: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """X in one array, and the mask if any token is absent."""
    x = unwrapped(x)
    if isinstance(x, list | tuple) and len(set(map(_length, x))) > 1:
        if mask is not None:
            raise InvalidInput("mask: expected none for sequences of different lengths, which make their own")
        return _padded([as_array(f"x, sample {place}", sequence) for place, sequence in enumerate(x)])
    values = as_array("x", x)
    _no_text(values)
    if values.ndim not in (2, 3):
        raise InvalidInput(f"x: expected {LAYOUT}, got the shape {values.shape}")
    if 0 in values.shape:
        raise InvalidInput(f"x: expected at least one value, got the shape {values.shape}")
    return values, None if mask is None else _checked(as_array("mask", mask), values.shape[:2])


def _length(sequence: Any) -> int | None:
    try:
        return len(sequence)
    except TypeError:  # a single number
        return None


def _no_text(values: np.ndarray) -> None:
    if values.dtype.kind in "US":
        raise InvalidInput(f"x: expected {LAYOUT}, got text")


def _checked(mask: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    if mask.shape != shape:
        raise InvalidInput(f"mask: expected the shape {shape}, got {mask.shape}")
    if not np.isin(mask, (0, 1)).all():
        raise expected("mask", "bools, or 0 and 1", mask[~np.isin(mask, (0, 1))][0].item())
    there = mask.astype(bool)
    empty = np.flatnonzero(~there.any(axis=1))
    if len(empty):
        raise InvalidInput(f"mask: expected a token in every sample, got none in sample {empty[0]}")
    return None if there.all() else there


def _padded(sequences: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of different lengths in one array, padded with zeros, and the mask of their tokens."""
    for sequence in sequences:
        _no_text(sequence)
    scalars = [place for place, sequence in enumerate(sequences) if not sequence.ndim]
    if scalars:
        raise InvalidInput(f"x: expected {LAYOUT}, got a single value in sample {scalars[0]}")
    lengths = np.array([len(sequence) for sequence in sequences])
    if not lengths.all():
        raise InvalidInput(f"x: expected a token in every sample, got none in sample {int(lengths.argmin())}")
    shapes = {sequence.shape[1:] for sequence in sequences}
    if len(shapes) > 1 or len(shapes.pop()) > 1:
        raise InvalidInput("x: expected tokens of one size, got tokens that differ in size")
    padded = np.zeros((len(sequences), lengths.max(), *sequences[0].shape[1:]), np.result_type(*sequences))
    for place, sequence in enumerate(sequences):
        padded[place, : len(sequence)] = sequence
    return padded, np.arange(lengths.max()) < lengths[:, None]


def _coded(values: np.ndarray, there: np.ndarray) -> Float[np.ndarray, "sample token code"]:
    """Integer tokens on axes of their own; many of them as random signs, nearly at right angles.

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
