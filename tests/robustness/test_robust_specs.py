import re
from pathlib import Path

import pytest
from robust_support import TINY, Process, Result, check_refused, numbers, tiny, write

from headcount.commands.specfile import load
from headcount.tasks.registry import TASKS

TRAINING = "[training]\n"
MODEL = "[model]\n"


# What the file holds, and what the line about it has to contain.
TOML: dict[str, tuple[str | bytes, list[str]]] = {
    "unknown field": (tiny("hidden = 4", "hiden = 4"), ["model.hiden", "did you mean hidden", "head_dim"]),
    "unknown field, nothing like it": (tiny(TRAINING, TRAINING + "zzz = 1\n"), ["training.zzz"]),
    "unknown option of a task": (tiny("token_dim", "tokendim"), ["tokendim", "max_sum", "token_dim"]),
    "unknown table": (TINY + "[modle]\n", ["modle", "did you mean model", "task, model, training"]),
    "no head": (tiny("heads = [1, 2]", "heads = [1, 0]"), ["model.heads", "got 0", "integer >= 1"]),
    "negative rate": (
        tiny(TRAINING, TRAINING + "learning_rate = -0.25\n"),
        ["training.learning_rate", "> 0"],
    ),
    "infinite rate": (
        tiny(TRAINING, TRAINING + "learning_rate = [1, inf]\n"),
        ["learning_rate[1]", "finite"],
    ),
    "a D that the task does not have": (
        tiny('name = "max_sum"\ndimension = 2\ntoken_dim = 2\n', 'name = "extremes"\ndimension = 3\n'),
        ["extremes", "dimension", "positions"],
    ),
    "unknown task": (tiny('"max_sum"', '"maxsum"'), ["'maxsum'", "did you mean 'max_sum'", "bowls"]),
    "text for a number": (tiny("heads = [1, 2]", 'heads = "two"'), ["model.heads", "'two'", "integer"]),
    "a bool for an option": (tiny("token_dim = 2", "token_dim = true"), ["token_dim", "True", "1"]),
    "empty list": (tiny("heads = [1, 2]", "heads = []"), ["model.heads", "[]", "at least 1"]),
    "no seeds": (tiny("seeds = 5", "seeds = 0"), ["training.seeds", "0", "from 1 to"]),
    "a seed that no generator takes": (tiny("seeds = 5", f"seeds = [{2**64}]"), ["seed", str(2**64)]),
    "unknown precision": (
        tiny(MODEL, MODEL + 'precision = "f16"\n'),
        ["model.precision", "'f16'", "bfloat16"],
    ),
    "one width for a list of them": (
        tiny(MODEL, MODEL + "readout_hidden = 8\n"),
        ["model.readout_hidden", "a list of integers", "got 8"],
    ),
    "a hidden layer of no units": (
        tiny(MODEL, MODEL + "readout_hidden = [8, 0]\n"),
        ["model.readout_hidden[1]", "integer >= 1", "got 0"],
    ),
    "missing field": (tiny("heads = [1, 2]\n"), ["model.heads", "missing"]),
    "a value for a table": ('task = "max_sum"\n' + TINY.partition("\n\n")[2], ["task", "'max_sum'"]),
    "warm-up as long as the run": (tiny(TRAINING, TRAINING + "warmup = 40\n"), ["warmup", "from 0 to 39"]),
    "positions beyond the length": (
        tiny("token_dim = 2", "token_dim = 2\npositions = [[7]]"),
        ["position", "7", "length 4"],
    ),
    "more data than any machine holds": (tiny("samples = 64", f"samples = {10**13}"), ["train_samples"]),
    "not TOML": ("heads = = 3", ["not TOML", "line 1"]),
    "empty file": ("", ["empty", "[task], [model] and [training]"]),
    "binary file": (bytes(range(256)), ["not TOML"]),
    "no list of grids": ("grid = 3\n", ["grid", "[[grid]]"]),
    "an empty list of grids": ("grid = []\n", ["at least one trial"]),
}

PYTHON: dict[str, tuple[str | bytes, list[str]]] = {
    "raises": ("x = 1\nraise RuntimeError('no luck\\ntoday')\n", ["line 2", "RuntimeError", "no luck"]),
    "syntax error": ("x = 1\ny = = 2\n", ["line 2", "SyntaxError"]),
    "defines nothing": ("x = 1\n", ["`grid`", "`trials`"]),
    "other trials": ("trials = [1, 2]\n", ["`trials`", "headcount.Trial"]),
    "leaves": ("import sys\n\nsys.exit()\n", ["line 3", "SystemExit"]),
    "binary": (bytes(range(256)), ["null bytes"]),
    "an empty axis": ("import headcount as h\ngrid = h.Grid('max_sum', heads=[])\n", ["heads", "[]", "list"]),
}


@pytest.mark.parametrize("name", [*TOML, *PYTHON])
def test_a_bad_specification_is_one_line_that_names_it(name, tmp_path, command):
    text, fragments = (TOML | PYTHON)[name]
    spec = write(tmp_path / f"bad spec{'.toml' if name in TOML else '.py'}", text)
    check_refused(command("sweep", spec, "--out", tmp_path / "runs"), spec, *fragments)
    assert not (tmp_path / "runs").exists()


def test_a_readout_may_have_several_hidden_layers(tmp_path):
    spec = write(tmp_path / "deep.toml", tiny(MODEL, MODEL + "readout_hidden = [8, 4]\n"))
    shapes = {trial.architecture for trial in load(Path(spec))}
    assert {shape.readout_hidden for shape in shapes} == {(8, 4)}
    assert {shape.encoder_hidden for shape in shapes} != {(8,)}


GRID = "[[grid]]\n" + re.sub(r"^\[", "[grid.", TINY, flags=re.MULTILINE)


def test_the_mistake_of_a_later_grid_says_which_grid(tmp_path, command):
    spec = write(tmp_path / "two.toml", GRID + GRID.replace("hidden = 4", "hidden = 0"))
    result = command("sweep", spec, "--out", tmp_path / "runs")
    check_refused(result, spec, "grid 2", "model.hidden", "got 0")


@pytest.mark.parametrize(
    ("name", "fragments"),
    [
        ("missing.toml", ["no such file"]),
        ("", ["folder", ".toml or .py"]),
        ("spec", [".toml or .py"]),
        ("spec.toml.bak", [".bak", ".toml or .py"]),
        ("x" * 300 + ".toml", ["name too long"]),
    ],
)
def test_a_file_that_is_none(name, fragments, tmp_path, command):
    path = write(tmp_path / name, TINY) if "spec" in name else tmp_path / name
    result = command("sweep", path, "--out", tmp_path / "runs")
    check_refused(result, path)
    for fragment in fragments:
        assert fragment in result.err.lower()
    assert not (tmp_path / "runs").exists()


@pytest.fixture
def no_new_tasks():
    known = set(TASKS)
    yield
    for name in set(TASKS) - known:
        del TASKS[name]


OWN_TASK = """\
import jax.numpy as jnp
from tiny import tiny_grid

import headcount as h


@h.register_task("my own")
def my_own(*, dimension: int = 2) -> h.RetrievalTask:
    functions = (lambda token: token[0], lambda token: token[1])
    return h.RetrievalTask(name="my own", token_dim=2, coordinate_functions=functions, outer=jnp.sum)


grid = tiny_grid(task="my own", options={}, heads=(1, 2))
"""


@pytest.mark.usefixtures("no_new_tasks", "quick_page")
def test_a_python_specification_brings_its_own_task(tmp_path, command):
    spec = write(tmp_path / "own.py", OWN_TASK)
    result = command("sweep", spec, "--out", tmp_path / "runs")
    assert (result.code, result.err) == (0, "")
    frame = numbers(tmp_path / "runs")
    assert frame[["task", "dimension", "heads"]].to_numpy().tolist() == [["my own", 2, 1], ["my own", 2, 2]]
    assert (frame["status"] == "done").all()
    assert command("report", tmp_path / "runs").code == 0


@pytest.mark.usefixtures("quick_page")
def test_a_list_of_grids_is_all_of_them_each_trial_once(tmp_path, command):
    first = GRID.replace("seeds = 5", "seeds = 2")
    second = first.replace("seeds = 2", "seeds = [1, 2]").replace("heads = [1, 2]", "heads = [2]")
    spec = write(tmp_path / "two.toml", first + second)
    result = command("sweep", spec, "--out", tmp_path / "runs")
    assert (result.code, result.err) == (0, "")
    found = numbers(tmp_path / "runs")[["heads", "seed"]].to_numpy().tolist()
    assert found == [[1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]


def test_a_real_process_refuses_in_one_line_too(tmp_path, cache):
    spec = write(tmp_path / "raises.py", "raise RuntimeError('no luck')\n")
    process = Process("sweep", spec, "--out", tmp_path / "runs", cache=cache, log=spec)
    check_refused(Result(process.wait(), process.out, process.err), spec, "no luck")
