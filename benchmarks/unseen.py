"""Tasks unlike any that the estimator was made with: what they have in common, and how they are split.

Frozen: written before the estimator was changed for any of them, and not edited since. They are split by
kind: `suite_mending.py` may be looked at while a rule is changed, `suite_held_out.py` is run once, at the
end. Kinds of which a task was found to fail before the suite was written are for mending; the others are
split by SPLIT_SEED.

A set of right answers has one number, or two where D is not a single number: where a target also pools, an
average takes a head of its own in a model whose other heads are sharp, but retrieves nothing. `unsure` marks
the tasks where "cannot tell" is right too: order statistics, which are no retrieval of any fixed D, and data
that hold too little. D = 0: nothing can be learnt.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from headcount.data.arrays import DataSet, data_set

Random = np.random.Generator
Target = Callable[[np.ndarray, Random], np.ndarray]
Tokens = Callable[[Random, int, int], np.ndarray]

SPLIT_SEED = 2026
DATA_SEED = 31
FOUND_TO_FAIL = ("pooling plus retrieval", "counts and shares", "interactions", "whole numbers")


@dataclass(frozen=True)
class Unseen:
    """A task, its samples and its right answers.

    - `target`: of all sequences at once; NaN in x marks tokens that are absent.
    - `noise`: deviation of noise added to y over that of y, or the share of labels that are flipped.
    - `control`: one head is enough, or nothing can be learnt.
    """

    kind: str
    name: str
    right: tuple[int, ...]
    why: str
    target: Target
    length: int = 12
    samples: int = 6_000
    tokens: Tokens | None = None
    noise: float = 0.0
    labels: bool = False
    lengths: tuple[int, int] | None = None
    unsure: bool = False
    control: bool = False

    @property
    def slug(self) -> str:
        """The name as that of a folder."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """X, y and the mask."""
        random = np.random.default_rng([DATA_SEED, *self.name.encode()])
        x = (self.tokens or normal)(random, self.samples, self.length)
        mask = None
        if self.lengths is not None:
            low, high = self.lengths
            mask = np.arange(self.length) < random.integers(low, high + 1, size=(self.samples, 1))
            x = np.where(mask[..., None], x, np.nan)
        y = np.asarray(self.target(x, random))
        if self.labels:
            flipped = random.random(len(y)) < self.noise
            y = np.where(flipped, 1 - y, y).astype(int)
        else:
            y = y.reshape(len(y), -1).astype(np.float64)
            y = y + self.noise * y.std(axis=0) * random.normal(size=y.shape)
        return np.nan_to_num(x) if mask is not None else x, y, mask

    def data(self) -> DataSet:
        """The samples as the estimator takes them."""
        x, y, mask = self.arrays()
        return data_set(x, y, mask, name=self.name, target="labels" if self.labels else "numbers")


def normal(random: Random, samples: int, length: int) -> np.ndarray:
    """Independent N(0, I_3)."""
    return random.normal(size=(samples, length, 3))


def heavy(random: Random, samples: int, length: int) -> np.ndarray:
    """Student's t with 3 degrees of freedom: large values are rare and far out."""
    return random.standard_t(3, size=(samples, length, 3))


def walk(random: Random, samples: int, length: int) -> np.ndarray:
    """A series in which each token is 0.8 of the one before plus noise."""
    steps = random.normal(size=(samples, length, 3))
    for place in range(1, length):
        steps[:, place] = 0.8 * steps[:, place - 1] + 0.6 * steps[:, place]
    return steps


def whole(kinds: int) -> Tokens:
    """Whole numbers, each as likely."""
    return lambda random, samples, length: random.integers(kinds, size=(samples, length))


def top(feature: int) -> Target:
    """The maximum of a feature."""
    return lambda x, _: np.nanmax(x[..., feature], axis=1)


def largest(x: np.ndarray, feature: int) -> np.ndarray:
    return np.nanmax(x[..., feature], axis=1)


def where(x: np.ndarray, feature: int) -> np.ndarray:
    return x[..., feature].argmax(axis=1)


def at(x: np.ndarray, place: np.ndarray, feature: int) -> np.ndarray:
    return np.take_along_axis(x[..., feature], place[:, None], axis=1)[:, 0]


def ranked(x: np.ndarray, feature: int) -> np.ndarray:
    """From the largest to the smallest."""
    return -np.sort(-x[..., feature], axis=1)


def first(above: np.ndarray) -> np.ndarray:
    """The place of the first token that is above; T where there is none."""
    return np.where(above.any(axis=1), above.argmax(axis=1), above.shape[1])


def high(values: np.ndarray) -> np.ndarray:
    """Above its median."""
    return values > np.median(values)


def scores(kinds: int, dimension: int) -> Target:
    """The sum of the maxima of several random scores of whole-number tokens."""
    tables = np.random.default_rng([DATA_SEED, kinds, dimension]).normal(size=(dimension, kinds))
    return lambda x, _: sum((table[x].max(axis=1) for table in tables), np.zeros(len(x)))


def weighted(*weights: float) -> Target:
    """A weighted sum of maxima of features."""
    return lambda x, _: sum((w * largest(x, i) for i, w in enumerate(weights)), np.zeros(len(x)))


def stacked(*outputs: Target) -> Target:
    """Several outputs."""
    return lambda x, random: np.stack([output(x, random) for output in outputs], axis=-1)


PROJECTION = np.array([0.6, -0.48, 0.64])


def for_mending(kinds: Iterable[str]) -> frozenset[str]:
    """The kinds of the first half."""
    kinds = sorted(kinds)
    others = np.random.default_rng(SPLIT_SEED).permutation(
        [kind for kind in kinds if kind not in FOUND_TO_FAIL]
    )
    return frozenset((*FOUND_TO_FAIL, *others[: len(kinds) // 2 - len(FOUND_TO_FAIL)].tolist()))


def made(kinds: dict[str, Callable[[], Iterator[Unseen]]]) -> tuple[Unseen, ...]:
    """The tasks of these kinds."""
    return tuple(task for kind in kinds.values() for task in kind())
