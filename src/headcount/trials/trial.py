"""A trial: one member, and the key under which its row is kept. Frozen, hashable, validated.

Its identity is its fields as plain values, less those at their default: a field that is added later, with a
default under which nothing changes, changes no identity.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache, cached_property
from typing import Any, Generic, Protocol, TypeAlias

from typing_extensions import TypeVar

from headcount.models.architecture import Architecture
from headcount.trials.task_choice import Task, TaskChoice
from headcount.trials.training import MAX_SEED, Training
from headcount.validation import check_integer, check_number, expected
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
        if self.training.polish_steps and getattr(self.architecture, "bounded", False):
            raise expected("polish_steps", "0 for a bounded model", self.training.polish_steps)

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


def written(part: Any) -> dict[str, Any]:
    """All fields of a dataclass that count when two are compared, as plain values."""
    return {field.name: _plain(getattr(part, field.name)) for field in fields(part) if field.compare}


def filled(kind: type, values: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """The written form of a dataclass, with fields that are missing at their default.

    `kinds` are the classes of fields that the annotations leave open. Raises KeyError for a field that the
    class has not got or that has no default.
    """
    found: dict[str, Any] = dict(values)
    for part in fields(kind):
        if not part.compare:
            continue
        if part.name not in found:
            found[part.name] = defaults(kind)[part.name]
        elif nested := _nested(part, kinds):
            found[part.name] = filled(nested, found[part.name])
    if unknown := found.keys() - {field.name for field in fields(kind) if field.compare}:
        raise KeyError(f"{kind.__name__} has no field {unknown.pop()}")
    return found


def essential(kind: type, values: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """The written form of a dataclass less the fields at their default, however deep they are.

    >>> from headcount.trials.task_choice import Training
    >>> essential(Training, written(Training(steps=1_000)))
    {'steps': 1000, 'warmup': 100}
    """
    usual = defaults(kind)
    found = {name: value for name, value in values.items() if name not in usual or value != usual[name]}
    for part in fields(kind):
        if part.name in found:
            if nested := _nested(part, kinds):
                found[part.name] = essential(nested, found[part.name])
            elif part.type is float:
                found[part.name] = float(found[part.name])  # 1 and 1.0 are one number
    return found


def hashed(identity: Mapping[str, Any]) -> str:
    """An identity as 16 hexadecimal digits."""
    return hashlib.sha256(as_json(identity).encode()).hexdigest()[:16]


def as_json(values: Mapping[str, Any]) -> str:
    """Plain values in an order that never changes."""
    return json.dumps(values, sort_keys=True)


@cache
def defaults(kind: type) -> dict[str, Any]:
    """The defaults of a dataclass, as plain values."""
    made = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(kind)
    }
    return {name: _plain(value) for name, value in made.items() if value is not MISSING}


def _nested(field: Field[Any], kinds: Mapping[str, type]) -> type | None:
    kind = kinds.get(field.name, field.type)
    return kind if isinstance(kind, type) and is_dataclass(kind) else None


def _plain(value: Any) -> Any:
    """What JSON reads back as it was written: lists for tuples, Python's numbers for NumPy's."""
    if is_dataclass(value):
        return written(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value
