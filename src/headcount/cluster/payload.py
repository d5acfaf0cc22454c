"""What trials need that is not in them: data of a person's own, and tasks that a person wrote.

It travels once to every worker, whatever the number of packs.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headcount.data.arrays import DataSet
from headcount.engine.data import forget_tasks
from headcount.errors import InvalidInput
from headcount.tasks.registry import TASKS, is_builtin
from headcount.tasks.retrieval import RetrievalTask
from headcount.trials.task_choice import DATA, TaskChoice
from headcount.trials.trial import Trial


@dataclass(frozen=True)
class Payload:
    """Data sets, real data by fingerprint, and builders of tasks by name."""

    data: tuple[DataSet, ...]
    real: Mapping[str, Any]
    tasks: Mapping[str, Callable[..., RetrievalTask]]

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> "Payload":
        """Those of the trials."""
        choices = {(type(trial), trial.task): trial for trial in trials}
        plain = [task for kind, task in choices if kind is Trial]
        others = [trial for (kind, _), trial in choices.items() if kind is not Trial]
        return cls(
            data=tuple(data for task in plain if (data := task.data) is not None),
            real=_real_data(others),
            tasks={
                task.name: TASKS[task.name]
                for task in plain
                if task.name != DATA and not is_builtin(task.name)
            },
        )

    def packed(self) -> bytes:
        """As bytes that a worker can open without the files that it was made from."""
        from ray import cloudpickle

        for builder in self.tasks.values():
            module = sys.modules.get(builder.__module__)
            if module is not None and module.__name__ != "__main__":
                cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(self))
        except Exception as error:
            raise InvalidInput(
                f"task = {', '.join(self.tasks)}: cannot be sent to a worker: {type(error).__name__}: {error}"
            ) from error


def unpack(packed: bytes) -> None:
    """Make what was packed known in this process."""
    from ray import cloudpickle

    try:
        found: Payload = cloudpickle.loads(packed)
    except Exception as error:
        raise InvalidInput(
            f"the tasks of this sweep cannot be opened by a worker: {type(error).__name__}: {error}"
        ) from error
    for data in found.data:
        TaskChoice.of_data(data)
    if found.real:
        from headcount.reproduce.real.loaded import remember_as

        for mark, read in found.real.items():
            remember_as(mark, read)
    if found.tasks:
        TASKS.update(found.tasks)
        forget_tasks()  # an earlier sweep may have had another task of the same name


def _real_data(trials: list[Trial]) -> dict[str, Any]:
    if not trials:
        return {}
    from headcount.reproduce.real.loaded import loaded

    marks = [str(dict(trial.task.options)["fingerprint"]) for trial in trials]
    return {mark: loaded(mark, object) for mark in marks}
