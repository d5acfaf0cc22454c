"""Tasks by name: a task is stored as its name and plain options, and built again from them."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import RetrievalTask
from headcount.validation import expected, shown

_Builder = TypeVar("_Builder", bound=Callable[..., RetrievalTask])

TASKS: dict[str, Callable[..., RetrievalTask]] = {}
VERSIONS: dict[str, str] = {}  # those that users declared for their tasks


def register_task(name: str, *, version: str | None = None) -> Callable[[_Builder], _Builder]:
    """Give a task a name, so that grids, files and the command line can ask for it.

    A name is never taken over: results already stored under it would silently mean another task. Results of
    a task are found again as long as its `version` is the same. Without one, a hash of the builder's code
    and constants takes its place (tasks/source.py).

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
        raise expected("task name", "a non-empty string", name)
    if name in TASKS:
        raise InvalidInput(f"task name: expected one that is not taken, got {name!r}")
    if version is not None and not (isinstance(version, str) and version.strip()):
        raise expected("version", "a non-empty string", version)

    def enter(builder: _Builder) -> _Builder:
        for parameter in inspect.signature(builder).parameters.values():
            if parameter.kind not in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                raise InvalidInput(f"task {name!r}: expected options with names, got {str(parameter)!r}")
        enter_task(name, builder, version)
        return builder

    return enter


def enter_task(name: str, builder: Callable[..., RetrievalTask], version: str | None) -> None:
    """Put a task into the registry, also in place of another one."""
    TASKS[name] = builder
    VERSIONS.pop(name, None)
    if version is not None:
        VERSIONS[name] = version


def task_version(name: str) -> str:
    """What a user's task is known by beside its name: its declared version, or a hash of its code.

    >>> task_version("bowls") == task_version("max_sum")
    False
    """
    if name in VERSIONS:
        return VERSIONS[name]
    from headcount.tasks.source import code_version

    return code_version(name, _known(name))


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
    builder = _known(name)
    parameters = inspect.signature(builder).parameters
    for option in options:
        if option not in parameters:
            raise InvalidInput(
                f"task {name!r}: expected an option of {', '.join(sorted(parameters))}, got {option!r}"
                f"{_nearest(option, parameters)}"
            )
    for option, parameter in parameters.items():
        if option not in options and parameter.default is parameter.empty:
            raise InvalidInput(f"task {name!r}: expected the option {option!r}, which has no default")
    return builder(**options)


def _known(name: str) -> Callable[..., RetrievalTask]:
    if not isinstance(name, str) or name not in TASKS:
        raise InvalidInput(f"task: expected {_listed(TASKS)}, got {shown(name)}{_nearest(name, TASKS)}")
    return TASKS[name]


def _listed(names: Iterable[str]) -> str:
    return f"one of {', '.join(sorted(names))}"


def _nearest(name: str, names: Iterable[str]) -> str:
    nearest = difflib.get_close_matches(str(name), list(names), n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def is_builtin(name: str) -> bool:
    """Whether the task is one of headcount's own, and not registered by a user."""
    return name in TASKS and TASKS[name].__module__.startswith("headcount.")
