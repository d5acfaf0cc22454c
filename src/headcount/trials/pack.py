"""A pack: trials that are trained together by one compiled program."""

import hashlib
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Generic, TypeAlias

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.trials.task_choice import TaskChoice
from headcount.trials.trial import ShapeT, TaskT, Trial


class TooLarge(InvalidInput):
    """A member that the machine cannot hold."""


@dataclass(frozen=True)
class Pack(Generic[TaskT, ShapeT]):
    """Trials that are trained together, in arrays of one architecture that holds them all."""

    trials: tuple[Trial[TaskT, ShapeT], ...]
    architecture: ShapeT

    @cached_property
    def id(self) -> str:
        """A hash of the members and their common shape."""
        text = "\n".join([*(trial.id for trial in self.trials), repr(self.architecture)])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def length(self) -> int:
        """T, the same for all members."""
        return self.trials[0].length

    def without(self, finished: Iterable[str]) -> "Pack[TaskT, ShapeT] | None":
        """The pack less the trials that are finished; None when nothing is left."""
        known = finished if isinstance(finished, Set | Mapping) else set(finished)
        left = tuple(trial for trial in self.trials if trial.id not in known)
        return replace(self, trials=left) if left else None


TaskPack: TypeAlias = Pack[TaskChoice, Architecture]
