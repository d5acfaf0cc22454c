"""Tokens as a model reads them: vectors of comparable size, and which of them are there."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from headcount.errors import InvalidInput
from headcount.validation import shown

MOST_ONE_HOT = 256
CODE_SIZE = 64


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
    numbers = values.reshape(*values.shape[:2], -1).astype(np.float64)
    if not numbers.shape[2]:
        raise InvalidInput(f"x has the shape {values.shape}: a token needs at least one number")
    seen = numbers[there]
    if not np.isfinite(seen).all():
        raise InvalidInput(f"x holds {shown(float(seen[~np.isfinite(seen)][0]))}: allowed are finite numbers")
    mean, deviation = seen.mean(axis=0), seen.std(axis=0)
    constant = deviation <= 1e-12 * (1 + abs(mean))
    if constant.all():
        raise InvalidInput(f"x is constant ({shown(float(seen[0, 0]))}): there is nothing to learn from")
    scaled = np.where(constant, 0, (numbers - mean) / np.where(constant, 1, deviation))
    return Tokens(np.where(there[..., None], scaled, 0).astype(np.float32), mask)


def as_array(name: str, given: Any) -> np.ndarray:
    """The values as a NumPy array of numbers, truth values or text."""
    for step in ("detach", "cpu"):
        given = getattr(given, step)() if hasattr(given, step) else given
    try:
        array = np.asarray(given)
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"{name} is not an array: {reason}") from None
    if array.dtype.kind not in "biufUS":
        raise InvalidInput(
            f"{name} holds values of type {array.dtype}: allowed are numbers, or text for labels"
        )
    return array


def _arrays(x: Any, mask: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """X in one array, and the mask where it hides anything."""
    if isinstance(x, list | tuple) and len({np.shape(sequence)[:1] for sequence in x}) > 1:
        if mask is not None:
            raise InvalidInput("mask is given, but x is a list of sequences that have lengths of their own")
        return _padded([as_array("x", sequence) for sequence in x])
    values = as_array("x", x)
    if values.dtype.kind in "US" or values.ndim not in (2, 3):
        kind = "text" if values.dtype.kind in "US" else f"the shape {values.shape}"
        raise InvalidInput(
            f"x has {kind}: allowed are numbers [samples, length, token_dim] or [samples, length]"
        )
    if 0 in values.shape:
        raise InvalidInput(f"x has the shape {values.shape}: there is nothing in it")
    return values, None if mask is None else _checked(as_array("mask", mask), values.shape[:2])


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
    shapes = {sequence.shape[1:] for sequence in sequences}
    if len(shapes) > 1 or len(shapes.pop()) > 1:
        raise InvalidInput("x is a list of sequences whose tokens differ in size: they need one size")
    lengths = np.array([len(sequence) for sequence in sequences])
    if not lengths.all():
        raise InvalidInput(f"x has no token in sample {int(lengths.argmin())}: one must be there")
    padded = np.zeros((len(sequences), lengths.max(), *sequences[0].shape[1:]), np.result_type(*sequences))
    for place, sequence in enumerate(sequences):
        padded[place, : len(sequence)] = sequence
    return padded, np.arange(lengths.max()) < lengths[:, None]


def _coded(values: np.ndarray, there: np.ndarray) -> Float[np.ndarray, "sample token code"]:
    """Whole-number tokens as unit vectors; of a large vocabulary as random signs, nearly at right angles."""
    vocabulary, places = np.unique(values[there], return_inverse=True)
    if len(vocabulary) < 2:
        raise InvalidInput(f"x is constant ({shown(vocabulary[0].item())}): there is nothing to learn from")
    if len(vocabulary) <= MOST_ONE_HOT:
        codes = np.eye(len(vocabulary), dtype=np.float32)
    else:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(len(vocabulary), CODE_SIZE))
        codes = (signs / np.sqrt(CODE_SIZE)).astype(np.float32)
    x = np.zeros((*values.shape, codes.shape[1]), np.float32)
    x[there] = codes[places]
    return x
