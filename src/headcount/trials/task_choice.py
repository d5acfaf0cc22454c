"""Which task a trial learns: a name and plain options, or a user's own data."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import jax
import numpy as np

from headcount.data.arrays import DataSet
from headcount.errors import InvalidInput
from headcount.tasks.registry import build
from headcount.tasks.retrieval import RetrievalTask
from headcount.validation import shown

DATA = "data"
_loaded: dict[str, DataSet] = {}


@dataclass(frozen=True)
class TaskChoice:
    """A task of the library (or a registered one) by name, with its options as plain values."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, **options: Any) -> Self:
        """The choice in a canonical form: options sorted, lists as tuples."""
        return cls(name, tuple(sorted((key, _frozen(value)) for key, value in options.items())))

    def at(self, dimension: int) -> "TaskChoice":
        """The same task with D set."""
        return TaskChoice.of(self.name, **{**dict(self.options), "dimension": dimension})

    @classmethod
    def of_data(cls, data: DataSet) -> "TaskChoice":
        """A person's own data, known by what is in it."""
        _loaded[data.fingerprint] = data
        return cls.of(DATA, file=data.name, fingerprint=data.fingerprint)

    def build(self) -> RetrievalTask:
        """The task itself."""
        return _built(self)

    @property
    def data(self) -> DataSet | None:
        """The data set, where the choice is one."""
        if self.name != DATA:
            return None
        options = dict(self.options)
        if options.get("fingerprint") not in _loaded:
            raise InvalidInput(f"data = {shown(options.get('file'))}: load it before it is trained on")
        return _loaded[options["fingerprint"]]

    @property
    def dimension(self) -> int:
        """D of the task; 0 where nobody knows it."""
        return 0 if self.name == DATA else self.build().dimension


@lru_cache(maxsize=1024)
def _built(task: TaskChoice) -> RetrievalTask:
    return build(task.name, **dict(task.options))


def forget_built() -> None:
    """Build tasks anew when they are asked for: a name may mean another one now."""
    _built.cache_clear()
    _fingerprint.cache_clear()


@lru_cache(maxsize=1024)
def _fingerprint(task: TaskChoice, length: int) -> str:
    """A hash of some targets, to three digits: it changes when the code of the task does."""
    targets = task.build().sample(jax.random.PRNGKey(0), 16, length).y
    text = " ".join(f"{value:.2e}" for value in targets.ravel().tolist())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(_frozen(item) for item in value)
    return value
