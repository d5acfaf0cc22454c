"""A user's own data: sequences, a target or a label for each, and a mask of the tokens that are present."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from headcount.data.conversion import as_array
from headcount.data.scale import scale_of
from headcount.data.summary import MAX_LABELS, Origin, doubts_of, is_one_hot, summary_of
from headcount.data.tokens import codes_of, ids_of, sequences_of, vectors_of, without_padding
from headcount.errors import InvalidInput
from headcount.validation import check_choice, shown

TargetType = Literal["auto", "numbers", "labels"]
TokenType = Literal["auto", "numbers", "ids"]

MIN_SAMPLES = 200
IF_NUMBERS = 'if y holds numbers rather than labels: target="numbers"'


@dataclass(frozen=True, eq=False)
class DataSet:
    """Sequences ready to be learnt, checked once: nothing in here is missing, infinite or constant.

    - `x`: tokens, every feature standardised over the tokens that are present; absent ones are 0.
    - `y`: targets [sample, output], standardised where float32 would lose much of their precision; for labels
      the index of each in `classes`, [sample].
    - `mask`: true where a token is present, if lengths differ.
    - `classes`: the labels; empty if y are numbers.
    - `ids`: how many different integer tokens there are; 0 if x are numbers.
    - `summary`, `doubts`: how the data was read, and what of it was probably not meant, in words.
    """

    name: str
    x: Float[np.ndarray, "sample token token_dim"]
    y: np.ndarray
    mask: Bool[np.ndarray, "sample token"] | None = None
    classes: tuple[str, ...] = ()
    ids: int = 0
    summary: str = ""
    doubts: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """T: tokens in the longest sequence."""
        return self.x.shape[1]

    @property
    def token_dim(self) -> int:
        """d: numbers per token, once integer tokens have their codes."""
        return self.x.shape[2]

    @property
    def output_dim(self) -> int:
        """The number of outputs of a model of this data: for labels, one each."""
        return len(self.classes) or self.y.shape[1]

    @cached_property
    def targets(self) -> Float[np.ndarray, "sample output"]:
        """What a model learns: the numbers, or the labels as one-hot codes."""
        return np.eye(len(self.classes))[self.y] if self.classes else self.y

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that decides a result."""
        digest = hashlib.sha256(repr((self.x.shape, self.y.shape, self.classes)).encode())
        for part in (self.x, self.y, self.mask):
            digest.update(b"-" if part is None else np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()[:16]


def data_set(
    x: Any,
    y: Any,
    mask: Any = None,
    origin: Origin = Origin(),  # noqa: B008  # it is frozen
    *,
    name: str = "data",
    target: TargetType = "auto",
    tokens: TokenType = "auto",
    padding: float | str | None = None,
) -> DataSet:
    """A data set from arrays of NumPy, JAX, PyTorch or pandas, or from lists.

    - `x`: numbers [samples, length, token_dim] or [samples, length], integer tokens [samples, length], or
      sequences of different lengths as a list or a Series.
    - `y`: numbers [samples] or [samples, k], or labels [samples].
    - `mask`: [samples, length], true where a token is present; sequences of different lengths need none.
    - `origin`: what its source says about it, such as the names of features.
    - `target`: whether y are `numbers` or `labels`; `auto` takes text, bools and up to 20 distinct integers
      for labels.
    - `tokens`: whether x are `numbers`, or `ids` of tokens; `auto` takes integers [samples, length] for ids.
    - `padding`: the number, or "nan", of tokens that only fill up shorter sequences.

    >>> random = np.random.default_rng(0)
    >>> x = random.normal(size=(200, 8, 3))
    >>> data_set(x, x.max(axis=1).sum(axis=1)).summary
    '200 sequences of 8 tokens, 3 numbers each; y: numbers; no mask'
    """
    check_choice("target", target, get_args(TargetType))
    check_choice("tokens", tokens, get_args(TokenType))
    values, present = sequences_of(x, mask)
    if padding is not None:
        present = without_padding(values, present, padding)
    as_ids = tokens == "ids" or (tokens == "auto" and values.ndim == 2 and values.dtype.kind in "iub")
    vectors, ids = codes_of(ids_of(values, present), present) if as_ids else (vectors_of(values, present), 0)
    samples, length = values.shape[:2]
    if samples < MIN_SAMPLES:
        raise InvalidInput(f"x: expected at least {MIN_SAMPLES} samples, got {samples}")
    longest = length if present is None else int(present.sum(axis=1).max())
    if longest < 2:
        raise InvalidInput(f"x: expected sequences of at least 2 tokens, got {longest} token each")
    if (vectors == vectors[0]).all():
        raise InvalidInput("x: every sample is the same sequence: there is nothing to learn from")
    outcomes = as_array("y", y)
    if outcomes.ndim == 0 or len(outcomes) != samples:
        raise InvalidInput(f"y: expected {samples} entries, one per sample, got the shape {outcomes.shape}")
    if _are_labels(outcomes, target):
        places, classes = _labels(outcomes, guessed=target == "auto" and outcomes.dtype.kind in "iu")
        data = DataSet(name, vectors, places, present, classes, ids)
    else:
        data = DataSet(name, vectors, _numbers(outcomes), present, ids=ids)
    asked = {"target": target, "tokens": tokens}
    doubts = doubts_of(values, outcomes, data, masked=mask is not None or present is not None, **asked)
    summary = summary_of(data, outcomes, origin, **asked)
    return replace(data, summary=summary, doubts=origin.doubts + doubts)


def _are_labels(y: np.ndarray, target: TargetType) -> bool:
    if y.dtype.kind in "US" and target == "numbers":
        raise InvalidInput('y: expected numbers, as target="numbers" says, got text')
    if target != "auto":
        return target == "labels"
    if y.ndim > 1 and y.shape[1:] != (1,):
        return False
    return y.dtype.kind in "bUS" or (y.dtype.kind in "iu" and len(np.unique(y)) <= MAX_LABELS)


def _labels(y: np.ndarray, *, guessed: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    if is_one_hot(y):
        y = y.argmax(axis=1)
    if y.size != len(y):
        raise InvalidInput(f"y: expected one label per sample, got the shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise _not_finite(y.reshape(len(y), -1), "labels")
    classes, places, counts = np.unique(y.reshape(-1), return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise InvalidInput(f"y: expected at least two labels, got only {shown(classes[0].item())}")
    if len(classes) > len(y) // 10:
        raise InvalidInput(
            f"y: expected at most {len(y) // 10} different labels for {len(y)} samples, got {len(classes)}"
        )
    if counts.min() < 3:
        rare, often = shown(classes[counts.argmin()].item()), ("once", "twice")[counts.min() - 1]
        cure = f"; {IF_NUMBERS}" if guessed else ""
        raise InvalidInput(f"y: expected every label at least 3 times, got label {rare} {often}{cure}")
    return places.reshape(-1), tuple(map(str, classes.tolist()))


def _numbers(y: np.ndarray) -> np.ndarray:
    if y.ndim > 2:
        raise InvalidInput(
            f"y: expected a target per sequence, [samples] or [samples, outputs], got the shape {y.shape}"
        )
    numbers = y.reshape(len(y), -1).astype(np.float64)
    if not numbers.shape[1]:
        raise InvalidInput(f"y: expected at least one output, got the shape {y.shape}")
    if not np.isfinite(numbers).all():
        raise _not_finite(numbers, "numbers")
    scale = scale_of(numbers)
    if scale.steady.any():
        output = int(scale.steady.argmax())
        how = "is constant" if scale.constant[output] else "varies only by rounding"
        where = f"({shown(float(numbers[0, output]))} in output {output})"
        raise InvalidInput(f"y {how} {where}: there is nothing to learn")
    return np.where(scale.awkward, scale.standardised(numbers), numbers)


def _not_finite(y: np.ndarray, kind: str) -> InvalidInput:
    """Where the first entry that is not finite stands, and how many there are."""
    bad = ~np.isfinite(y)
    sample, output = np.argwhere(bad)[0].tolist()
    place = f"sample {sample}" + f", output {output}" * (y.shape[1] > 1)
    place += " (counted from 0)" + (f"; {bad.sum():,} such values" if bad.sum() > 1 else "")
    return InvalidInput(f"y: expected finite {kind}, got {y[sample, output]} at {place}")
