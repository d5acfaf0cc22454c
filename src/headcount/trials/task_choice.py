"""What a trial learns: a task by its name and plain options, or a user's own data."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from headcount.errors import InvalidInput
from headcount.trials.training import METRICS, Training

if TYPE_CHECKING:  # loaded where they are used: a sweep needs no data, an estimate no tasks
    from headcount.data.arrays import DataSet
    from headcount.tasks.retrieval import RetrievalTask

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
        return _built(self.name, self.options, self.version)

    @cached_property
    def version(self) -> str:
        """Of a user's own task: the version that it declares, or a hash of its code when first needed."""
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
def _built(name: str, options: tuple[tuple[str, Any], ...], version: str) -> "RetrievalTask":
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
