"""What packs need beside themselves: data sets, and tasks that users wrote.

It travels once to every worker, whatever the number of packs; the packs travel without their data.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headcount.engine.data import forget_tasks
from headcount.errors import InvalidInput
from headcount.tasks.registry import TASKS, enter_task
from headcount.tasks.retrieval import RetrievalTask
from headcount.trials.pack import Pack
from headcount.trials.task_choice import Task
from headcount.trials.trial import Trial


@dataclass(frozen=True)
class Payload:
    """Data by the tasks that it belongs to; builders of users' tasks and their versions, by name."""

    data: Mapping[Task, Any]
    tasks: Mapping[str, Callable[..., RetrievalTask]]
    versions: Mapping[str, str]

    @classmethod
    def of(cls, trials: Iterable[Trial]) -> "Payload":
        """Those of the trials."""
        choices = dict.fromkeys(trial.task for trial in trials)
        users = {task.name: task.version for task in choices if task.version}
        return cls(
            data={task.with_data(None): task.data for task in choices if task.data is not None},
            tasks={name: TASKS[name] for name in users},
            versions=users,
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
                f"task {', '.join(self.tasks)}: cannot be sent to a worker: {type(error).__name__}: {error}"
            ) from error


def with_data(pack: Pack, data: Mapping[Task, Any]) -> Pack:
    """The pack as it is trained; with {} as it travels, without its data."""
    tasks = {trial.task: trial.task.with_data(data.get(trial.task)) for trial in pack.trials}
    return replace(pack, trials=tuple(replace(trial, task=tasks[trial.task]) for trial in pack.trials))


def unpack(packed: bytes) -> Payload:
    """What was packed, with its tasks registered in this process."""
    from ray import cloudpickle

    try:
        found: Payload = cloudpickle.loads(packed)
    except Exception as error:
        raise InvalidInput(
            f"the tasks of this sweep cannot be opened by a worker: {type(error).__name__}: {error}"
        ) from error
    for name, builder in found.tasks.items():
        enter_task(name, builder, found.versions[name])
    if found.tasks:
        forget_tasks()  # an earlier sweep may have had another task of the same name
    return found
