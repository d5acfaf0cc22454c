"""A person's own data: sequences, a target or a label for each, and which tokens are there."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float

from headcount.data.scale import scale_of
from headcount.data.tokens import Tokens, as_array, tokens_of
from headcount.errors import InvalidInput
from headcount.validation import shown

TargetType = Literal["auto", "numbers", "labels"]

MIN_SAMPLES = 200
MAX_LABELS = 20  # of whole numbers that may be labels; more are a quantity
IF_NUMBERS = "if these are numbers and no labels, say --target numbers (in Python target='numbers')"


@dataclass(frozen=True, eq=False)
class DataSet:
    """Sequences ready to be learnt, checked once: nothing in here is missing, infinite or constant.

    - `x`: tokens, every feature standardised over the tokens that are there; the others are 0.
    - `y`: targets [sample, output], standardised where float32 would lose much of them; or for labels the
      place of each in `classes`, [sample].
    - `mask`: which tokens are there, where lengths differ.
    - `classes`: the labels; empty where y are numbers.
    """

    name: str
    x: Float[np.ndarray, "sample token token_dim"]
    y: np.ndarray
    mask: Bool[np.ndarray, "sample token"] | None = None
    classes: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        """T, of the longest sequence."""
        return self.x.shape[1]

    @property
    def token_dim(self) -> int:
        """d, after whole-number tokens were given their codes."""
        return self.x.shape[2]

    @property
    def output_dim(self) -> int:
        """How many numbers a model of this data puts out: one per label."""
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


def data_set(x: Any, y: Any, mask: Any = None, *, name: str = "data", target: TargetType = "auto") -> DataSet:
    """Arrays of NumPy, JAX or PyTorch as a data set.

    - `x`: numbers [samples, length, token_dim] or [samples, length], whole-number tokens [samples, length],
      or a list of sequences of different lengths.
    - `y`: numbers [samples] or [samples, k], or labels [samples].
    - `mask`: [samples, length], true where a token is there; a list of sequences needs none.
    - `target`: whether y are `numbers` or `labels`; `auto` takes text, truth values and up to 20 different
      whole numbers for labels.

    >>> random = np.random.default_rng(0)
    >>> x = random.normal(size=(200, 8, 3))
    >>> data_set(x, x.max(axis=1).sum(axis=1)).output_dim
    1
    """
    if target not in get_args(TargetType):
        raise InvalidInput(f"target = {shown(target)}: allowed are {', '.join(get_args(TargetType))}")
    tokens = tokens_of(x, mask)
    samples, length = tokens.x.shape[:2]
    if samples < MIN_SAMPLES:
        raise InvalidInput(f"x has {samples} samples: allowed are {MIN_SAMPLES} or more")
    longest = length if tokens.mask is None else int(tokens.mask.sum(axis=1).max())
    if longest < 2:
        raise InvalidInput(f"x has sequences of {longest} token: allowed are 2 tokens or more")
    if (tokens.x == tokens.x[0]).all():
        raise InvalidInput("x has one sequence alone, in every sample: there is nothing to learn from")
    outcomes = as_array("y", y)
    if outcomes.ndim == 0 or len(outcomes) != samples:
        raise InvalidInput(f"y has the shape {outcomes.shape}: x has {samples} samples, y needs as many")
    if _are_labels(outcomes, target):
        places, classes = _labels(outcomes, guessed=target == "auto" and outcomes.dtype.kind in "iu")
        return _finished(name, tokens, places, classes)
    return _finished(name, tokens, _numbers(outcomes), ())


def _finished(name: str, tokens: Tokens, y: np.ndarray, classes: tuple[str, ...]) -> DataSet:
    return DataSet(name=name, x=tokens.x, y=y, mask=tokens.mask, classes=classes)


def _are_labels(y: np.ndarray, target: TargetType) -> bool:
    if y.dtype.kind in "US" and target == "numbers":
        raise InvalidInput("target = 'numbers': y holds text, which can only be labels")
    if target != "auto":
        return target == "labels"
    if y.ndim > 1 and y.shape[1:] != (1,):
        return False
    return y.dtype.kind in "bUS" or (y.dtype.kind in "iu" and len(np.unique(y)) <= MAX_LABELS)


def _labels(y: np.ndarray, *, guessed: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    if y.size != len(y):
        raise InvalidInput(f"y has the shape {y.shape}: labels need one for each sample")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise InvalidInput(f"y holds {shown(float(y[~np.isfinite(y)][0]))}: allowed are finite values")
    classes, places, counts = np.unique(y.reshape(-1), return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise InvalidInput(f"y has the one label {shown(classes[0].item())} alone: two or more are needed")
    if len(classes) > len(y) // 10:
        raise InvalidInput(
            f"y has {len(classes)} labels for {len(y)} samples: at most {len(y) // 10} can be learnt"
        )
    if counts.min() < 3:
        rare = shown(classes[counts.argmin()].item())
        cure = f"; {IF_NUMBERS}" if guessed else ""
        raise InvalidInput(f"y has the label {rare} {counts.min()} times: each needs 3 samples or more{cure}")
    return places.reshape(-1), tuple(map(str, classes.tolist()))


def _numbers(y: np.ndarray) -> np.ndarray:
    if y.ndim > 2:
        raise InvalidInput(f"y has the shape {y.shape}: allowed are [samples] and [samples, outputs]")
    numbers = y.reshape(len(y), -1).astype(np.float64)
    if not numbers.shape[1]:
        raise InvalidInput(f"y has the shape {y.shape}: at least one output is needed")
    if not np.isfinite(numbers).all():
        raise InvalidInput(
            f"y holds {shown(float(numbers[~np.isfinite(numbers)][0]))}: allowed are finite numbers"
        )
    scale = scale_of(numbers)
    if scale.steady.any():
        output = int(scale.steady.argmax())
        where = f"({shown(float(numbers[0, output]))} in output {output})"
        if scale.constant[output]:
            raise InvalidInput(f"y is constant {where}: there is nothing to learn")
        raise InvalidInput(
            f"y changes by no more than rounding {where}: allowed are numbers that differ by more"
        )
    return np.where(scale.awkward, scale.standardised(numbers), numbers)
