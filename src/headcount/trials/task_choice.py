"""What a trial learns, and how: a task by name or a user's own data, and the training."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from headcount.errors import InvalidInput
from headcount.validation import check_choice, check_integer, check_number, expected

if TYPE_CHECKING:  # loaded where they are used: a sweep needs no data, an estimate no tasks
    from headcount.data.arrays import DataSet
    from headcount.tasks.retrieval import RetrievalTask

Loss = Literal["squared", "cross_entropy"]
METRICS = {"squared": "nmse", "cross_entropy": "log loss"}
MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class Training:
    """How a member is trained, and on how much data.

    AdamW with linear warm-up (500 steps, or a tenth of the run if that is less) and a cosine to zero,
    gradients clipped per member. Every `evaluate_every` steps the member is evaluated on validation data and
    its best state is kept; its final error comes from test data that no choice has seen. With `polish_steps`
    that best state is then improved by so many steps of Levenberg–Marquardt (engine/polish.py). The `loss`
    is `squared` for numbers and `cross_entropy` for labels, of which y is the one-hot code.
    """

    steps: int = 10_000
    batch_size: int = 256
    warmup: int | None = None
    weight_decay: float = 0.0
    clip: float = 1.0
    train_samples: int = 8_000
    validation_samples: int = 2_000
    test_samples: int = 10_000
    evaluate_every: int = 100
    data_seed: int = 0
    polish_steps: int = 0
    loss: Loss = "squared"

    def __post_init__(self) -> None:
        check_integer("steps", self.steps, at_least=1)
        if self.warmup is None:
            object.__setattr__(self, "warmup", min(500, self.steps // 10))
        for name in ("batch_size", "train_samples", "evaluate_every"):
            check_integer(name, getattr(self, name), at_least=1)
        for name in ("validation_samples", "test_samples"):
            check_integer(name, getattr(self, name), at_least=2)
        check_integer("warmup", self.warmup, at_least=0, at_most=self.steps - 1)
        check_integer("polish_steps", self.polish_steps, at_least=0)
        check_integer("data_seed", self.data_seed, at_least=0, at_most=MAX_SEED)
        check_choice("loss", self.loss, get_args(Loss))
        if self.polish_steps and self.loss != "squared":
            raise InvalidInput(f"polish_steps: expected 0 with the loss {self.loss}, got {self.polish_steps}")
        check_number("weight_decay", self.weight_decay, at_least=0)
        check_number("clip", self.clip, above=0)
        if self.steps % self.evaluate_every:
            raise expected("steps", f"a multiple of evaluate_every = {self.evaluate_every}", self.steps)


DATA = "data"
MAX_DATA_BYTES = 4 << 30


@dataclass(frozen=True)
class Task(ABC):
    """What a trial learns, known by a name and by options that are plain values.

    `data` goes wherever the trial goes. It is no part of the identity: the options say what is in it.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    data: Any = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, name: str, **options: Any) -> Self:
        """The task in a canonical form: options sorted, lists as tuples."""
        return cls(name, tuple(sorted((key, _frozen(value)) for key, value in options.items())))

    def with_data(self, data: Any) -> Self:
        """The same task with this data, or with None."""
        return replace(self, data=data)

    @property
    def version(self) -> str:
        """Of the code that makes it, where that is not headcount's own."""
        return ""

    @property
    def dimension(self) -> int:
        """D; 0 where nobody knows it."""
        return 0

    @abstractmethod
    def metric(self, training: Training) -> str:
        """The name of what errors are measured in."""

    @abstractmethod
    def check(self, length: int, token_dim: int, training: Training) -> None:
        """Refuse a trial that cannot be trained on it."""


@dataclass(frozen=True)
class TaskChoice(Task):
    """A task of the library (or a registered one) by name, or a user's data by what is in it."""

    data: "DataSet | None" = field(default=None, compare=False, repr=False)

    @classmethod
    def of_data(cls, data: "DataSet") -> "TaskChoice":
        """A user's own data, known by its content."""
        return cls.of(DATA, fingerprint=data.fingerprint).with_data(data)

    def at(self, dimension: int) -> "TaskChoice":
        """The same task with D set."""
        return TaskChoice.of(self.name, **{**dict(self.options), "dimension": dimension})

    def build(self) -> "RetrievalTask":
        """The task itself."""
        return _built(self.name, self.options)

    @property
    def version(self) -> str:
        """Of a user's own task: the version that it declares, or a hash of its code."""
        if self.name == DATA:
            return ""
        from headcount.tasks.registry import is_builtin, task_version

        return "" if is_builtin(self.name) else task_version(self.name)

    @property
    def dimension(self) -> int:
        """D of the task; 0 where nobody knows it."""
        return 0 if self.name == DATA else self.build().dimension

    def metric(self, training: Training) -> str:
        """Errors are relative to what is known without x."""
        return METRICS[training.loss]

    def check(self, length: int, token_dim: int, training: Training) -> None:
        """Only data has labels; and all samples must fit in memory."""
        if training.loss != "squared" and self.name != DATA:
            raise InvalidInput(f"loss: expected squared for a task without labels, got {training.loss!r}")
        samples = training.train_samples + training.validation_samples + training.test_samples
        size = 4 * samples * length * token_dim
        if size > MAX_DATA_BYTES:
            raise InvalidInput(
                f"train_samples: expected at most {MAX_DATA_BYTES >> 30} GiB of data in all splits, got "
                f"{size / 2**30:,.0f} GiB for {training.train_samples} at length {length}"
            )


@lru_cache(maxsize=1024)
def _built(name: str, options: tuple[tuple[str, Any], ...]) -> "RetrievalTask":
    from headcount.tasks.registry import build

    return build(name, **dict(options))


def forget_built() -> None:
    """Build tasks again when they are next needed: a name may stand for another one now."""
    _built.cache_clear()


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(_frozen(item) for item in value)
    return value
