import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from robust_support import TINY, Command, Result, numbers, start, tiny, write

from headcount.tasks.registry import TASKS

TRAINING = "[training]\n"
MODEL = "[model]\n"
PYTHON_START = "import headcount as h\n"


def other_task(text: str) -> str:
    return tiny('name = "max_sum"\ndimension = 2\ntoken_dim = 2\n', text)


# What the file holds, and what the line about it has to contain.
TOML: dict[str, tuple[str | bytes, list[str]]] = {
    "unknown field": (tiny("hidden = 4", "hiden = 4"), ["model.hiden", "did you mean hidden", "head_dim"]),
    "unknown field, nothing like it": (tiny(TRAINING, TRAINING + "zzz = 1\n"), ["training.zzz"]),
    "unknown option of a task": (tiny("token_dim", "tokendim"), ["tokendim", "max_sum", "token_dim"]),
    "unknown table": (
        TINY + "[modle]\nheads = 2\n",
        ["modle", "did you mean model", "task, model, training"],
    ),
    "field outside any table": ("steps = 3\n" + TINY, ["steps", "task, model, training"]),
    "no head": (
        tiny("heads = [1, 2]", "heads = [1, 0]"),
        ["model.heads", "got 0", "integer >= 1"],
    ),
    "negative rate": (
        tiny(TRAINING, TRAINING + "learning_rate = -0.25\n"),
        ["training.learning_rate", "-0.25", "number > 0"],
    ),
    "NaN rate": (tiny(TRAINING, TRAINING + "learning_rate = nan\n"), ["learning_rate", "nan", "finite"]),
    "infinite rate": (
        tiny(TRAINING, TRAINING + "learning_rate = [1e-3, inf]\n"),
        ["learning_rate[1]", "inf", "finite"],
    ),
    "more orthonormal directions than dimensions": (
        tiny("dimension = 2\ntoken_dim = 2", 'dimension = 5\ntoken_dim = 4\ndirections = "orthonormal"'),
        ["dimension", "5", "orthonormal", "at most 4"],
    ),
    "a D that the task does not have": (
        other_task('name = "extremes"\ndimension = 3\n'),
        ["extremes", "dimension", "positions"],
    ),
    "unknown task": (tiny('"max_sum"', '"maxsum"'), ["'maxsum'", "did you mean 'max_sum'", "bowls"]),
    "text for a number": (tiny("heads = [1, 2]", 'heads = "two"'), ["model.heads", "'two'", "integer"]),
    "a truth value for heads": (tiny("heads = [1, 2]", "heads = true"), ["model.heads", "True", "integer"]),
    "a truth value for an option": (tiny("token_dim = 2", "token_dim = true"), ["token_dim", "True", "1"]),
    "empty list": (tiny("heads = [1, 2]", "heads = []"), ["model.heads", "[]", "at least 1"]),
    "no seeds": (tiny("seeds = 5", "seeds = 0"), ["training.seeds", "0", "from 1 to"]),
    "a seed that no generator takes": (
        tiny("seeds = 5", "seeds = [18446744073709551616]"),
        ["seed", "18446744073709551616"],
    ),
    "key-value heads that do not divide": (
        tiny(MODEL, MODEL + "kv_heads = 2\n"),
        ["kv_heads", "2", "heads = 1"],
    ),
    "unknown precision": (
        tiny(MODEL, MODEL + 'precision = "float16"\n'),
        ["model.precision", "'float16'", "float32", "bfloat16"],
    ),
    "missing table": (TINY.partition(TRAINING)[0], ["training", "missing"]),
    "missing field": (tiny("heads = [1, 2]\n"), ["model.heads", "missing"]),
    "a value for a table": ('task = "max_sum"\n' + TINY.partition("\n\n")[2], ["task", "'max_sum'"]),
    "not a multiple": (tiny("steps = 40", "steps = 25"), ["steps", "25", "multiple", "evaluate_every = 10"]),
    "warm-up as long as the run": (
        tiny(TRAINING, TRAINING + "warmup = 40\n"),
        ["warmup", "40", "steps"],
    ),
    "positions beyond the length": (
        tiny("token_dim = 2", "token_dim = 2\npositions = [[7]]"),
        ["position", "7", "length 4"],
    ),
    "more data than any machine holds": (
        tiny("train_samples = 64", "train_samples = 10000000000000"),
        ["train_samples"],
    ),
    "not TOML": ("heads = = 3", ["not TOML", "line 1"]),
    "empty file": ("", ["empty", "[task], [model] and [training]"]),
    "binary file": (bytes(range(256)), ["not TOML"]),
    "no list of grids": ("grid = 3\n", ["grid", "[[grid]]"]),
    "an empty list of grids": ("grid = []\n", ["at least one trial"]),
    "a grid beside the tables": (TINY + "[[grid]]\n", ["grid", "task, model, training"]),
}

PYTHON: dict[str, tuple[str | bytes, list[str]]] = {
    "raises": ("x = 1\nraise RuntimeError('no luck\\ntoday')\n", ["line 2", "RuntimeError", "no luck"]),
    "syntax error": ("x = 1\ny = = 2\n", ["line 2", "SyntaxError"]),
    "defines nothing": ("x = 1\n", ["`grid`", "`trials`"]),
    "no trials": ("trials = []\n", ["at least one trial"]),
    "other trials": ("trials = [1, 2]\n", ["`trials`", "headcount.Trial"]),
    "leaves": ("import sys\n\nsys.exit()\n", ["line 3", "SystemExit"]),
    "binary": (bytes(range(256)), ["null bytes"]),
    "an empty axis": (PYTHON_START + "grid = h.Grid('max_sum', heads=[])\n", ["heads", "[]", "list"]),
    "an unknown option of the model": (
        PYTHON_START + "grid = h.Grid(h.TaskChoice.of('max_sum'), model=(('colour', 1),))\n",
        ["colour"],
    ),
    "a name that is taken": (
        PYTHON_START + "from headcount.tasks.library import max_sum\nh.register_task('max_sum')(max_sum)\n",
        ["'max_sum'", "taken"],
    ),
}

# Words of the machinery, which mean nothing to the user.
INTERNAL = ["Traceback", "instance of", "tasktable", "gridtable", "line None", "0x7f"]


def check_refused(result: Result, fragments: list[str]) -> None:
    assert result.code == 2, (result.code, result.err)
    assert result.err.endswith("\n")
    assert len(result.lines) == 1, result.err
    assert result.err.startswith("headcount: error: ")
    assert result.out == ""
    for fragment in fragments:
        assert fragment in result.err, f"{fragment!r} is not in: {result.err}"
    for word in INTERNAL:
        assert word not in result.err


@pytest.mark.parametrize("name", TOML)
def test_a_bad_table_is_one_line_that_names_it(name: str, tmp_path: Path, command: Command) -> None:
    text, fragments = TOML[name]
    spec = write(tmp_path / "bad spec.toml", text)
    check_refused(command("sweep", spec, "--out", tmp_path / "runs"), [str(spec), *fragments])
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", PYTHON)
def test_a_bad_python_specification_is_one_line_that_names_it(
    name: str, tmp_path: Path, command: Command
) -> None:
    text, fragments = PYTHON[name]
    spec = write(tmp_path / "bad spec.py", text)
    check_refused(command("sweep", spec, "--out", tmp_path / "runs"), [str(spec), *fragments])
    assert not (tmp_path / "runs").exists()


def test_the_mistake_of_a_later_grid_says_which_grid(tmp_path: Path, command: Command) -> None:
    grid = re.sub(r"^\[", "[grid.", TINY, flags=re.MULTILINE)
    spec = write(
        tmp_path / "two.toml", f"[[grid]]\n{grid}[[grid]]\n{grid.replace('hidden = 4', 'hidden = 0')}"
    )
    result = command("sweep", spec, "--out", tmp_path / "runs")
    check_refused(result, [str(spec), "model.hidden", "got 0"])
    assert re.search(r"grid\W*[12]\b", result.err), result.err


@pytest.mark.parametrize(
    ("name", "fragments"),
    [
        ("missing.toml", ["no such file"]),
        ("", ["folder", ".toml or .py"]),
        ("spec.yaml", [".yaml", ".toml or .py"]),
        ("spec", [".toml or .py"]),
        ("spec.toml.bak", [".bak", ".toml or .py"]),
        ("x" * 300 + ".toml", ["name too long"]),
    ],
)
def test_a_file_that_is_none(name: str, fragments: list[str], tmp_path: Path, command: Command) -> None:
    if "spec" in name:
        write(tmp_path / name, TINY)
    path = tmp_path / name
    result = command("sweep", path, "--out", tmp_path / "runs")
    check_refused(result, [str(path)])
    for fragment in fragments:
        assert fragment.lower() in result.err.lower()
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def no_new_tasks() -> Iterator[None]:
    known = set(TASKS)
    yield
    for name in set(TASKS) - known:
        del TASKS[name]


OWN_TASK = """\
import jax.numpy as jnp

import headcount as h
from headcount.tasks.registry import register_task


@register_task("my own")
def my_own(*, dimension: int = 2) -> h.RetrievalTask:
    return h.RetrievalTask(
        name="my own",
        token_dim=2,
        coordinate_functions=(lambda token: token[0], lambda token: token[1]),
        outer=jnp.sum,
    )


grid = h.Grid(
    h.TaskChoice.of("my own"),
    length=(4,),
    heads=(1, 2),
    head_dim=(2,),
    hidden=(4,),
    training=h.Training(
        steps=40, evaluate_every=10, train_samples=64, validation_samples=32, test_samples=32, batch_size=16
    ),
)
"""


@pytest.mark.usefixtures("no_new_tasks", "quick_page")
def test_a_python_specification_brings_its_own_task(tmp_path: Path, command: Command) -> None:
    spec = write(tmp_path / "own.py", OWN_TASK)
    result = command("sweep", spec, "--out", tmp_path / "runs")
    assert (result.code, result.err) == (0, "")
    frame = numbers(tmp_path / "runs")
    assert frame[["task", "dimension", "heads"]].to_numpy().tolist() == [["my own", 2, 1], ["my own", 2, 2]]
    assert (frame["status"] == "done").all()
    assert command("report", tmp_path / "runs").code == 0


@pytest.mark.usefixtures("quick_page")
def test_a_list_of_grids_is_all_of_them_each_trial_once(tmp_path: Path, command: Command) -> None:
    first = re.sub(r"^\[", "[grid.", tiny("seeds = 5", "seeds = 2"), flags=re.MULTILINE)
    second = first.replace("seeds = 2", "seeds = [1, 2]").replace("heads = [1, 2]", "heads = [2]")
    spec = write(tmp_path / "two.toml", f"[[grid]]\n{first}\n[[grid]]\n{second}")
    result = command("sweep", spec, "--out", tmp_path / "runs")
    assert (result.code, result.err) == (0, "")
    found = numbers(tmp_path / "runs")[["heads", "seed"]].to_numpy().tolist()
    assert found == [[1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]


def test_a_real_process_refuses_in_one_line_too(tmp_path: Path, cache: Path) -> None:
    spec = write(tmp_path / "raises.py", "raise RuntimeError('no luck')\n")
    process = start("sweep", spec, "--out", tmp_path / "runs", cache=cache, log=spec)
    code = process.wait()
    check_refused(Result(code, process.out, process.err), [str(spec), "no luck"])
    assert not (tmp_path / "runs").exists()
