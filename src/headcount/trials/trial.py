"""A trial: one member, and the key under which its row is kept. Frozen, hashable, validated."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Protocol, TypeAlias

from typing_extensions import TypeVar

from headcount.models.architecture import Architecture
from headcount.trials.identity import as_json, essential, hashed, written
from headcount.trials.task_choice import Task, TaskChoice
from headcount.trials.training import MAX_SEED, Training
from headcount.validation import check_integer, check_number
from headcount.version import ALGORITHM


class Shape(Protocol):
    """What rows and packs need to know of a model's shape, whatever the model."""

    @property
    def token_dim(self) -> int:
        """The size of a token, d."""

    @property
    def heads(self) -> int:
        """How many heads, h."""

    @property
    def head_dim(self) -> int:
        """The size of a head, n."""

    @property
    def layers(self) -> int:
        """How many layers, L."""

    @property
    def width(self) -> int:
        """The width E = n·h."""

    @property
    def encoder_hidden(self) -> tuple[int, ...]:
        """The hidden widths of the networks that read a token."""

    @property
    def precision(self) -> str:
        """Of matrix products."""

    def counted_parameters(self) -> int:
        """How many parameters are counted, M."""


TaskT = TypeVar("TaskT", bound=Task, covariant=True, default=Task)
ShapeT = TypeVar("ShapeT", bound=Shape, covariant=True, default=Shape)


@dataclass(frozen=True)
class Trial(Generic[TaskT, ShapeT]):
    """One member: what it learns, what it is, how and from where it starts.

    `Trial` alone stands for any of them; the trainer is chosen by the type of `task`.
    """

    task: TaskT
    length: int
    architecture: ShapeT
    learning_rate: float = 3e-3
    seed: int = 0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        check_integer("length", self.length, at_least=1)
        check_integer("seed", self.seed, at_least=0, at_most=MAX_SEED)
        check_number("learning_rate", self.learning_rate, above=0)
        self.task.check(self.length, self.architecture.token_dim, self.training)

    @property
    def metric(self) -> str:
        """What its errors are."""
        return self.task.metric(self.training)

    @cached_property
    def id(self) -> str:
        """The key of its row on every machine: a hash of all that decides the result."""
        return key_of(self._written(), type(self.architecture))

    def to_json(self) -> str:
        """All fields, and the version of the training algorithm."""
        return as_json(self._written())

    def _written(self) -> dict[str, Any]:
        fields = {"algorithm": ALGORITHM, **written(self)}
        if version := self.task.version:
            fields["task"]["version"] = version
        return fields


def key_of(written: Mapping[str, Any], shape: type) -> str:
    """The key of a trial from its written form and the class of its shape.

    Two classes of shapes may have the same fields beside those at their default, so that the class counts.
    """
    identity = essential(Trial, written, task=Task, architecture=shape)
    identity["architecture"]["class"] = shape.__name__
    return hashed(identity)


# A member of the paper's class, on a task of the library, a registered one or a user's data.
TaskTrial: TypeAlias = Trial[TaskChoice, Architecture]
