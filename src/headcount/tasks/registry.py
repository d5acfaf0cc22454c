"""Tasks by name: a task is stored as its name and plain options, and built again from them."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import RetrievalTask
from headcount.validation import shown

_Builder = TypeVar("_Builder", bound=Callable[..., RetrievalTask])

TASKS: dict[str, Callable[..., RetrievalTask]] = {}


def register_task(name: str) -> Callable[[_Builder], _Builder]:
    """Give a task a name, so that grids, files and the command line can ask for it.

    A name is never taken over: results already stored under it would silently mean another task.

    >>> @register_task("first entry")
    ... def first_entry(*, token_dim: int = 2) -> RetrievalTask:
    ...     entry = lambda token: token[0]
    ...     return RetrievalTask(
    ...         name="first entry", token_dim=token_dim, coordinate_functions=(entry,), outer=lambda z: z[0]
    ...     )
    >>> build("first entry", token_dim=3).token_dim
    3
    >>> del TASKS["first entry"]
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidInput(f"task name {shown(name)} is not possible: a non-empty text is needed")
    if name in TASKS:
        raise InvalidInput(f"task name {name!r} is taken: choose another than {', '.join(sorted(TASKS))}")

    def enter(builder: _Builder) -> _Builder:
        for parameter in inspect.signature(builder).parameters.values():
            if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                raise InvalidInput(f"task {name!r} takes {str(parameter)!r}: every option needs a name")
        TASKS[name] = builder
        return builder

    return enter


def with_defaults(name: str, defaults: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """What was given (None: was not), and the defaults for the rest where the task takes them.

    >>> with_defaults("extremes", {"dimension": 4}, positions="even", token_dim=None)
    {'positions': 'even'}
    """
    taken = inspect.signature(TASKS.get(name, build)).parameters
    chosen = {option: value for option, value in defaults.items() if option in taken}
    return chosen | {option: value for option, value in given.items() if value is not None}


def build(name: str, **options: Any) -> RetrievalTask:
    """The task of this name with these options; what is left out has its default.

    >>> build("bowls", dimension=3).dimension
    3
    """
    if not isinstance(name, str) or name not in TASKS:
        raise InvalidInput(f"task {shown(name)} is not known{_nearest(name, TASKS)}: {_listed(TASKS)}")
    builder = TASKS[name]
    parameters = inspect.signature(builder).parameters
    for option in options:
        if option not in parameters:
            raise InvalidInput(
                f"task {name!r} has no option {option!r}{_nearest(option, parameters)}: {_listed(parameters)}"
            )
    for option, parameter in parameters.items():
        if option not in options and parameter.default is parameter.empty:
            raise InvalidInput(f"task {name!r} needs the option {option!r}")
    return builder(**options)


def _listed(names: Iterable[str]) -> str:
    return f"use one of {', '.join(sorted(names))}"


def _nearest(name: str, names: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(str(name), list(names), n=1)
    return f", did you mean {nearest[0]!r}" if nearest else ""


def is_builtin(name: str) -> bool:
    """Whether the task is one of headcount's own, and not registered by a user."""
    return name in TASKS and TASKS[name].__module__.startswith("headcount.")
