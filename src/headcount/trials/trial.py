"""A trial: one member, and the key under which its row is kept. Frozen, hashable, validated."""

import hashlib
import json
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.tasks.registry import is_builtin
from headcount.trials.task_choice import DATA, TaskChoice, _fingerprint
from headcount.trials.training import MAX_SEED, METRICS, Training
from headcount.validation import check_integer, check_number

MAX_DATA_BYTES = 4 << 30
# Options that came after the first results: where they have their usual value, a trial keeps its old hash.
LATER_OPTIONS = (
    ("training", "polish_steps", 0),
    ("training", "loss", "squared"),
    ("architecture", "class_reads", "last"),
    ("architecture", "positions_start", "drawn"),
)


@dataclass(frozen=True)
class Trial:
    """One member: what it learns, what it is, how and from where it starts."""

    task: TaskChoice
    length: int
    architecture: Architecture
    learning_rate: float = 3e-3
    seed: int = 0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        check_integer("length", self.length, at_least=1)
        check_integer("seed", self.seed, at_least=0, at_most=MAX_SEED)
        check_number("learning_rate", self.learning_rate, above=0)
        recipe = self.training
        if recipe.loss != "squared" and self.task.name != DATA:
            raise InvalidInput(f"loss = {recipe.loss!r}: allowed is squared, since the task has no labels")
        samples = recipe.train_samples + recipe.validation_samples + recipe.test_samples
        size = 4 * samples * self.length * self.architecture.token_dim
        if size > MAX_DATA_BYTES:
            raise InvalidInput(
                f"train_samples = {recipe.train_samples}: with validation and test samples, at length "
                f"{self.length}, that is {size / 2**30:,.0f} GiB of data; allowed are {MAX_DATA_BYTES >> 30}"
            )

    @property
    def metric(self) -> str:
        """What its errors are."""
        return METRICS[self.training.loss]

    @cached_property
    def id(self) -> str:
        """A hash of everything that decides the result: the key of a row, on every machine."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """All fields, in an order that never changes; for a task of your own, also what it computes."""
        parts = {part: _written(getattr(self, part)) for part in ("task", "architecture", "training")}
        written: dict[str, Any] = {**_written(self), **parts}
        if self.task.name != DATA and not is_builtin(self.task.name):
            written["task"]["fingerprint"] = _fingerprint(self.task, self.length)
        for part, option, usual in LATER_OPTIONS:
            if written[part][option] == usual:  # as if it had never been thought of
                del written[part][option]
        return json.dumps(written, sort_keys=True, default=lambda number: number.item())  # of NumPy


def _written(part: Any) -> dict[str, Any]:
    """The fields of a dataclass of plain values: `asdict`, but quick enough for every member of a sweep."""
    return {field.name: getattr(part, field.name) for field in fields(part)}
