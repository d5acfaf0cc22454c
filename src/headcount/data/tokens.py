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

Present = Bool[np.ndarray, "sample token"] | None


def sequences_of(x: Any, mask: Any) -> tuple[np.ndarray, Present]:
    """X in one array, and the mask if any token is absent."""
    x = unwrapped(x)
    if isinstance(x, list | tuple) and len(set(map(_length, x))) > 1:
        arrays = [as_array(f"x, sample {place}", row, entry="token") for place, row in enumerate(x)]
        values, present = _padded(arrays)
        return values, present if mask is None else _checked(_ragged(mask, present), present.shape)
    values = as_array("x", x)
    _no_text(values)
    if values.ndim not in (2, 3):
        cure = '; if a row is a token: id="COLUMN" tells sequences apart' if values.ndim == 1 else ""
        raise InvalidInput(f"x: expected {LAYOUT}, got the shape {values.shape}{cure}")
    if 0 in values.shape:
        raise InvalidInput(f"x: expected at least one value, got the shape {values.shape}")
    return values, None if mask is None else _checked(as_array("mask", mask), values.shape[:2])


def without_padding(values: np.ndarray, present: Present, padding: Any) -> Present:
    """The mask without the tokens that only fill up: all NaN, or a run of one number at the end or the start.

    >>> without_padding(np.array([[3, 0, 5, 0], [1, 2, 3, 4]]), None, 0).astype(int)
    array([[1, 1, 1, 0],
           [1, 1, 1, 1]])
    """
    try:
        number = math.inf if isinstance(padding, bool) else float(padding)
    except (TypeError, ValueError):
        number = math.inf
    if math.isinf(number):
        raise expected("padding", 'a number or "nan"', padding)
    tokens = values.reshape(*values.shape[:2], -1)
    if math.isnan(number):
        absent = np.isnan(tokens).all(axis=2)
    else:
        ends = [runs((tokens == number).all(axis=2), at=end) for end in ("end", "start")]
        absent = max(ends, key=np.sum)  # of two equal sums the first, the end
    if not absent.any() and math.isnan(number) and np.isnan(tokens).any():
        return present  # these are no padding, and refused by their places
    if not absent.any():
        raise InvalidInput(f"padding: expected tokens of {number:g} that fill up sequences, got none")
    return _checked(~absent if present is None else present & ~absent, values.shape[:2])


def runs(same: Bool[np.ndarray, "sample token"], *, at: str) -> Bool[np.ndarray, "sample token"]:
    """Where an unbroken run of true lasts to the end of its sequence, or from its start."""
    step = -1 if at == "end" else 1
    return np.logical_and.accumulate(same[:, ::step], axis=1)[:, ::step]


def vectors_of(values: np.ndarray, present: Present) -> Float[np.ndarray, "sample token token_dim"]:
    """Numbers standardised over the tokens that are present; absent ones are 0."""
    there = np.ones(values.shape[:2], bool) if present is None else present
    numbers = values.reshape(*values.shape[:2], -1)
    if not numbers.shape[2]:
        raise InvalidInput(f"x: expected at least one number per token, got the shape {values.shape}")
    _fits_memory(numbers.shape)
    numbers = numbers.astype(np.float64)
    seen = numbers[there]
    if not np.isfinite(seen).all():
        raise _not_finite(numbers, there, masked=present is not None)
    scale = scale_of(seen)
    if scale.steady.all():
        how = "is constant" if scale.constant.all() else "varies only by rounding"
        raise InvalidInput(f"x {how} ({shown(float(seen[0, 0]))}): there is nothing to learn from")
    scaled = scale.standardised(np.where(there[..., None], numbers, 0))
    return np.where(there[..., None], scaled, 0).astype(np.float32)


def ids_of(values: np.ndarray, present: Present) -> np.ndarray:
    """The values as whole numbers [samples, length], where that is what they are."""
    ids = values.reshape(values.shape[:2]) if values[0, 0].size == 1 else values
    if ids.ndim != 2:
        raise InvalidInput(f"x: expected one id per token, [samples, length], got the shape {values.shape}")
    if ids.dtype.kind in "iub":
        return ids
    ids = np.where(True if present is None else present, ids, 0)
    whole = np.isfinite(ids) & (ids == np.round(ids)) & (abs(ids) < 2**53)
    if not whole.all():
        raise expected("x", "whole numbers as ids of tokens", float(ids[~whole][0]))
    return ids.astype(np.int64)


def codes_of(ids: np.ndarray, present: Present) -> tuple[Float[np.ndarray, "sample token code"], int]:
    """Integer tokens on axes of their own, many as random signs, nearly at right angles; and their number.

    All entries have a mean square of 1, as standardised features have: a model starts from that size.
    """
    there = np.ones(ids.shape, bool) if present is None else present
    vocabulary, places = np.unique(ids[there], return_inverse=True)
    if len(vocabulary) < 2:
        raise InvalidInput(f"x is constant ({shown(vocabulary[0].item())}): there is nothing to learn from")
    _fits_memory((*ids.shape, len(vocabulary) if len(vocabulary) <= MAX_ONE_HOT else CODE_SIZE))
    if len(vocabulary) <= MAX_ONE_HOT:
        codes = np.sqrt(len(vocabulary)) * np.eye(len(vocabulary))
    else:
        codes = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(vocabulary), CODE_SIZE))
    x = np.zeros((*ids.shape, codes.shape[1]), np.float32)
    x[there] = codes[places]
    return x, len(vocabulary)


def _not_finite(numbers: np.ndarray, there: np.ndarray, *, masked: bool) -> InvalidInput:
    """Where the first number that is not finite stands, and how many there are.

    Where some tokens are NaN throughout, which may be padding, and others in part: where the first of those.
    """
    bad = ~np.isfinite(numbers) & there[..., None]
    throughout = np.isnan(numbers).all(axis=2) & there
    stray = bad & ~throughout[..., None]
    both = bool(stray.any() and throughout.any())
    bad = stray if both else bad
    sample, token, feature = np.argwhere(bad)[0].tolist()
    place = f"sample {sample}, token {token}" + f", feature {feature}" * (numbers.shape[2] > 1)
    count, samples = int(bad.sum()), int(bad.any(axis=(1, 2)).sum())
    line = f"got {numbers[sample, token, feature]} at {place} (counted from 0)"
    if count > 1:
        line += f"; {count:,} such values in {samples:,} sample{'s' * (samples > 1)}"
    cure = ""
    if both:
        line += f"; and {throughout.sum():,} tokens of nothing but NaN"
    if throughout.any() and not masked:
        subject = "they only fill" if both else "NaN only fills"
        cure = f'; if {subject} up shorter sequences: padding="nan"'
    return InvalidInput(f"x: expected finite numbers, {line}{cure}")


def _fits_memory(shape: tuple[int, ...]) -> None:
    """Refuse tokens whose copies, here and in the splits, would exceed the memory of this machine."""
    needed = COPIES * 4 * math.prod(shape)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > memory:
        raise InvalidInput(
            f"x: {shape[0]:,} samples of {shape[1]:,} tokens of {shape[2]:,} numbers need at least "
            f"{needed / 1e9:,.0f} GB; this machine has {memory / 1e9:,.0f} GB: use fewer samples"
        )


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


def _ragged(mask: Any, present: np.ndarray) -> np.ndarray:
    """The masks of sequences of different lengths, which must be as long as these are."""
    given = unwrapped(mask)
    given = given if isinstance(given, list | tuple | np.ndarray) else ()
    rows = [as_array("mask", row, entry="token") for row in given]
    if [row.shape for row in rows] != [(length,) for length in present.sum(axis=1).tolist()]:
        raise InvalidInput(
            "mask: expected none for sequences of different lengths, or one that is as long as its sequence"
        )
    whole = np.zeros(present.shape, np.result_type(*rows))
    whole[present] = np.concatenate(rows)
    return whole


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
    shapes = [sequence.shape[1:] for sequence in sequences]
    usual = max(shapes, key=shapes.count)
    if len(set(shapes)) > 1:
        odd = next(place for place, shape in enumerate(shapes) if shape != usual)
        raise InvalidInput(
            f"x: expected tokens of one size, got tokens that differ in size, first in sample {odd} "
            "(counted from 0)"
        )
    if len(usual) > 1:
        raise InvalidInput(f"x: expected {LAYOUT}, got tokens of the shape {usual}")
    padded = np.zeros((len(sequences), lengths.max(), *sequences[0].shape[1:]), np.result_type(*sequences))
    for place, sequence in enumerate(sequences):
        padded[place, : len(sequence)] = sequence
    return padded, np.arange(lengths.max()) < lengths[:, None]
