"""Sweep specifications from files: TOML or Python in, trials out, errors that name the field."""

import difflib
import runpy
import stat
import sys
import tomllib
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import PydanticCustomError

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.tasks.registry import TASKS
from headcount.trials.grid import OPTIONS, Grid
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import Trial
from headcount.validation import expected

MAX_SEEDS = 100_000
WANTED = {  # in the words of our own checks, by pydantic's name of a mistake; other mistakes in its words
    "greater_than_equal": "an integer >= {ge}",
    "greater_than": "a number > {gt:g}",
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "a bool",
    "tuple_type": "a list of integers",
    "too_short": "at least {min_length} value",
    "literal_error": "one of {expected}",
    "model_type": "a table, [{place}]",
}
EXAMPLE = f"""\
[task]
name = "max_sum"           # one of {", ".join(sorted(TASKS))}
dimension = [2, 3]         # a list is an axis of the grid
token_dim = 4

[model]
heads = [1, 2, 3, 4]
head_dim = 8
hidden = 32

[training]
length = [8, 32, 128]
learning_rate = [3e-3, 1e-2]
seeds = 4                  # seeds 0 to 3; or a list of seeds
steps = 10000
"""


def load(path: Path) -> tuple[Trial, ...]:
    """The trials that a .toml or .py file asks for."""
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError as error:
        reason = "no such file" if isinstance(error, FileNotFoundError) else error.strerror
        raise InvalidInput(f"{path}: {reason}") from error
    if is_folder:
        raise InvalidInput(f"{path}: expected a .toml or .py file, got a folder")
    loaders = {".toml": _from_toml, ".py": _from_python}
    if path.suffix not in loaders:
        raise InvalidInput(f"{path}: expected a file that ends in .toml or .py, got {path.suffix!r}")
    try:
        trials = loaders[path.suffix](path)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from error
    if not trials:
        raise InvalidInput(f"{path}: expected at least one trial, got none")
    return trials


def _as_seeds(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int):
        return value
    if not 1 <= value <= MAX_SEEDS:
        raise PydanticCustomError("seeds", f"an integer from 1 to {MAX_SEEDS}, or a list of seeds")
    return list(range(value))


Axis = BeforeValidator(lambda value: value if isinstance(value, list) else [value])
Sizes = Annotated[list[Annotated[int, Field(ge=1)]], Axis, Field(min_length=1)]
Rates = Annotated[list[Annotated[float, Field(gt=0, allow_inf_nan=False)]], Axis, Field(min_length=1)]
Seeds = Annotated[list[Annotated[int, Field(ge=0)]], BeforeValidator(_as_seeds), Field(min_length=1)]


class Table(BaseModel):
    """A table of a specification; unknown fields and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


def _options_of(kind: type, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Fields of a dataclass as optional fields of a table."""
    hints = get_type_hints(kind)
    return {name: (hints[name] | None, None) for name in (hints if names is None else names)}


class TaskTable(Table):
    """`[task]`: a name of the library and that task's own options."""

    model_config = ConfigDict(extra="allow", strict=True)
    name: str
    dimension: Sizes | None = None


class ModelAxes(Table):
    """`[model]`: axes of the grid; options of the architecture beside them hold for all of it."""

    heads: Sizes
    head_dim: Sizes = [8]
    width: int | None = None
    hidden: Sizes = [32]
    layers: Sizes = [1]


class TrainingAxes(Table):
    """`[training]`: axes of the grid; what `Training` takes beside them holds for all of it."""

    length: Sizes
    learning_rate: Rates = [3e-3]
    seeds: Seeds = [0]


AsTuple = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)
Layers = Annotated[tuple[Annotated[int, Field(ge=1)], ...], AsTuple]
OF_MODEL = {**_options_of(Architecture, OPTIONS), "readout_hidden": (Layers | None, None)}
ModelTable = create_model("ModelTable", __base__=ModelAxes, **OF_MODEL)
TrainingTable = create_model("TrainingTable", __base__=TrainingAxes, **_options_of(Training))


class GridTable(Table):
    """One grid: the three tables of a specification."""

    task: TaskTable
    model: ModelTable  # type: ignore[valid-type]
    training: TrainingTable  # type: ignore[valid-type]

    def grid(self) -> Grid:
        """The grid that the engine understands."""
        task: Any = self.task.model_dump(exclude_none=True)
        model: Any = self.model.model_dump(exclude_none=True)  # type: ignore[attr-defined]
        training: Any = self.training.model_dump(exclude_none=True)  # type: ignore[attr-defined]
        dimension = task.pop("dimension", None)
        return Grid(
            task=TaskChoice.of(task.pop("name"), **task),
            dimension=None if dimension is None else tuple(dimension),
            width=model.pop("width", None),
            **{axis: tuple(model.pop(axis)) for axis in ("heads", "head_dim", "hidden", "layers")},
            **{axis: tuple(training.pop(axis)) for axis in ("length", "learning_rate")},
            seed=tuple(training.pop("seeds")),
            model=tuple(model.items()),
            training=Training(**training),
        )


def _from_toml(path: Path) -> tuple[Trial, ...]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"not TOML: {error}") from error
    if not document:
        raise InvalidInput("expected the tables [task], [model] and [training], got an empty file")
    tables = document["grid"] if set(document) == {"grid"} else [document]
    if not isinstance(tables, list):
        raise InvalidInput("grid: expected a list of grids, each under [[grid]], got one table")
    grids = [
        _grid(table, f"grid {place}, " if len(tables) > 1 else "")
        for place, table in enumerate(tables, start=1)
    ]
    return tuple(dict.fromkeys(trial for grid in grids for trial in grid.trials()))


def _grid(table: Any, place: str) -> Grid:
    if not isinstance(table, dict):
        raise expected("grid", "a table under [[grid]]", table)
    try:
        return GridTable.model_validate(table).grid()
    except ValidationError as error:
        raise InvalidInput(place + _first_mistake(error)) from error
    except InvalidInput as error:
        raise InvalidInput(f"{place}{error}") from error


def _from_python(path: Path) -> tuple[Trial, ...]:
    sys.path.insert(0, str(path.parent))  # a specification may import its neighbours
    try:
        names = runpy.run_path(str(path))
        grid = names.get("grid")
        trials = grid.trials() if isinstance(grid, Grid) else names.get("trials")
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = lines[-1] if lines else getattr(error, "lineno", None)
        place = f"line {line}: " if line else ""
        raise InvalidInput(f"{place}{type(error).__name__}: {str(error).partition(chr(10))[0]}") from error
    finally:
        sys.path.remove(str(path.parent))
    if not isinstance(trials, list | tuple) or not all(isinstance(trial, Trial) for trial in trials):
        raise InvalidInput("expected `grid`, a headcount.Grid, or `trials`, a list of headcount.Trial")
    return tuple(dict.fromkeys(trials))


def _first_mistake(error: ValidationError) -> str:
    """`model.heads[0]: expected an integer >= 1, got 0`, for the first of the mistakes."""
    mistake = error.errors(include_url=False)[0]
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in mistake["loc"])
    place = "".join(parts).removeprefix(".")
    if mistake["type"] == "missing":
        return f"{place}: missing"
    if mistake["type"] == "extra_forbidden":
        return f"{place}: unknown field; {_known(mistake['loc'])}"
    wanted = WANTED.get(mistake["type"], mistake["msg"].removeprefix("Input should be "))
    return str(expected(place, wanted.format(place=place, **mistake.get("ctx", {})), mistake["input"]))


def _known(location: tuple[int | str, ...]) -> str:
    tables: dict[str, type[BaseModel]] = {"model": ModelTable, "training": TrainingTable}
    table = tables.get(str(location[0]), GridTable) if len(location) > 1 else GridTable
    close = difflib.get_close_matches(str(location[-1]), table.model_fields, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{hint}expected one of {', '.join(table.model_fields)}"
