"""The command line before it does anything: what it loads, and what it says."""

import os
import re
import subprocess
import sys
from importlib import import_module
from itertools import groupby, pairwise
from typing import Literal, get_args, get_origin, get_type_hints

import jax
import pytest
import typer

import headcount
from headcount.commands import cli, estimate
from headcount.commands.training import Engine
from headcount.data.arrays import TargetType, TokenType

HEAVY = ("jax", "jaxlib", "numpy", "pandas", "pyarrow", "scipy", "equinox", "altair", "pydantic")


@pytest.mark.parametrize(("asked", "loaded"), [("--help", []), ("estimate --help", ["pydantic"])])  # by typer
@pytest.mark.parametrize("command", ["import headcount", "from headcount.commands.cli import main; main()"])
def test_nothing_heavy_is_loaded_before_there_is_work(command, asked, loaded):
    at_exit = f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    code = f"import atexit, sys; atexit.register(lambda: {at_exit}); {command}"
    run = [sys.executable, "-c", code, *asked.split()]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] in ("[]", str(loaded))


def test_the_program_is_called_headcount_and_an_unknown_command_suggests_a_known_one(called, capsys):
    assert called("--help", program="/somewhere/pytest/__main__.py") == 0
    assert "Usage: headcount [OPTIONS] COMMAND" in capsys.readouterr().out
    assert called("estimat") == 2
    assert "Did you mean 'estimate'?" in capsys.readouterr().err


@pytest.fixture
def printed(called, capsys, monkeypatch):
    """What a command prints, in a terminal of some width."""

    def run(*arguments, width=80):
        monkeypatch.setenv("COLUMNS", str(width))
        assert called(*arguments) == 0
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example(name, option, printed):
    page = printed(name, option)
    assert f"Usage: headcount {name}" in page and f"headcount {name}" in page.partition("Example:")[2]
    assert "most-heads" not in page
    assert "<bool>" not in page and "range>" not in page


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["", *cli.COMMANDS])
def test_help_fills_the_terminal_and_goes_no_further(name, width, printed):
    page = printed(*name.split(), "--help", width=width)
    assert max(map(len, page.splitlines())) <= width
    for paragraph in described(page):
        for line, after in pairwise(paragraph):  # no word of the next line would have had room
            assert len(line) + 1 + len(after.split()[0]) > width - 2


def described(page):
    """The paragraphs between the usage and the first panel, as lines."""
    lines = [line.strip() for line in page[: page.index("╭")].splitlines()]
    blocks = [list(group) for filled, group in groupby(lines, bool) if filled]
    return blocks[1:]


def in_brackets(text):
    return [" ".join(found.split()) for found in re.findall(r"\[[a-zA-Z][^\[\]]*\]", text or "")]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_shape_of_a_docstring_is_printed(name, printed):
    page = " ".join(re.sub("[│╭╮╰╯─]", " ", printed(name, "-h", width=100)).split())
    module = "sweep" if name == "example" else name
    function = getattr(import_module(f"headcount.commands.{module}"), name)
    texts = [function.__doc__, *(option.help for option in options_of(function))]
    assert [shape for text in texts for shape in in_brackets(text) if shape not in page] == []


def options_of(function):
    hints = get_type_hints(function, include_extras=True)
    return [extra for hint in hints.values() for extra in getattr(hint, "__metadata__", ())]


def test_the_shapes_of_data_are_printed(printed):
    page = " ".join(re.sub("[│╭╮╰╯─]", " ", printed("estimate", "-h")).split())
    for shape in ("[samples, length, token_dim]", "[samples, length]", "[samples, outputs]"):
        assert shape in page
    assert "<auto|numbers|labels>" in page and "<auto|numbers|ids>" in page


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("estimate", "[DATA]"),
        ("sweep", "SPEC"),
        ("reproduce", "[NAME]"),
        ("construct", "KIND [TASK]"),
        ("merge", "DIR..."),
        ("density", "EXPRESSION"),
    ],
)
def test_arguments_have_the_names_that_the_text_has(name, usage, printed):
    page = printed(name, "-h")
    assert f"Usage: headcount {name} [OPTIONS] {usage}\n" in re.sub(" +\n", "\n", page)
    assert all(re.search(rf"^│ [* ] +{each.strip('[].')} ", page, re.MULTILINE) for each in usage.split())


def test_the_list_begins_with_what_most_people_come_for(printed):
    page = printed("--help")
    names = re.findall(r"^│ (\w+) ", page, re.MULTILINE)
    assert names[:3] == ["estimate", "demo", "plan"]
    assert names == list(cli.COMMANDS)


def test_the_version_is_printed(printed):
    assert printed("--version") == f"headcount {headcount.__version__}\n"


@pytest.mark.parametrize(
    ("words", "offered"), [("headcount est", {"estimate"}), ("headcount estimate --tar", {"--target"})]
)
def test_completion_offers_commands_and_options(words, offered):
    asked = {"_HEADCOUNT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "from headcount.commands.cli import command; command()"
    run = [sys.executable, "-c", code]
    done = subprocess.run(run, capture_output=True, text=True, env={**os.environ, **asked}, check=True)
    assert set(done.stdout.split()) == offered


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request, monkeypatch):
    """The shell that the command line is called from."""
    for module in (typer.completion, typer._completion_shared):
        monkeypatch.setattr(module, "_get_shell_name", lambda: request.param)
    return request.param


def test_completion_is_shown_for_the_shell(shell, printed):
    assert f"_HEADCOUNT_COMPLETE=complete_{shell}" in printed("--show-completion")


def test_completion_is_installed_for_the_shell(shell, printed, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert f"{shell} completion installed" in printed("--install-completion")
    written = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(f"_HEADCOUNT_COMPLETE=complete_{shell}" in text for text in written)


WANTED = {int: "an integer", float: "a number"}


def options_with_types():
    for name in cli.COMMANDS:
        module = "sweep" if name == "example" else name
        function = getattr(import_module(f"headcount.commands.{module}"), name)
        for part, hint in get_type_hints(function).items():
            kinds = [each for kind in get_args(hint) for each in (kind, *get_args(kind))] or [hint]
            wanted = next((WANTED[kind] for kind in kinds if kind in WANTED), None)
            if get_origin(hint) is Literal:
                wanted = f"one of {', '.join(get_args(hint))}"
            if wanted is not None and part != "kind":  # which is an argument
                yield name, f"--{part.replace('_', '-')}", wanted


@pytest.mark.parametrize(("name", "option", "wanted"), [*options_with_types()])
def test_a_bad_value_of_any_option_is_refused_before_anything_is_read(name, option, wanted, called, capsys):
    for value in ("x", "x\ny", ""):
        assert called(name, option, value) == 2
        shown = repr(value).replace("\\\\", "\\")
        assert capsys.readouterr().err == f"headcount: error: {option}: expected {wanted}, got {shown}\n"


REFUSED = {
    "estimate --max-heads 1": "--max-heads: expected an integer from 3 to 32, got 1",
    "estimate --max-heads 3.5": "--max-heads: expected an integer from 3 to 32, got 3.5",
    "estimate --seed -1": "--seed: expected an integer >= 0, got -1",
    "collide --length 8 --length 1": "--length: expected an integer >= 2, got 1",
    "construct foo": "KIND: expected one of specialise, memorise, got 'foo'",
    "construct": "KIND: expected one of specialise, memorise, got none",
    "sweep": "SPEC: expected a value, got none",
    "bounds --heads 3": "--dimension: expected an integer, got none",
    "estimate --seed": "--seed: expected a value, got none",
    "estimate --positions=3": "--positions: expected no value, got one",
    "estimate --targt labels": "--targt: no such option; did you mean --target?",
    "estimate a b": "Got unexpected extra argument(s) (b)",
    "estimate nowhere.npz --target label": "--target: expected one of auto, numbers, labels, got 'label'",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_parsed_is_refused_in_one_line(line, called, capsys):
    assert called(*line.split()) == 2
    assert capsys.readouterr().err == f"headcount: error: {REFUSED[line]}\n"


def test_data_may_be_what_the_reader_allows():
    hints = get_type_hints(estimate.estimate)
    assert (hints["target"], hints["tokens"]) == (TargetType, TokenType)


@pytest.mark.parametrize("option", [("--most-heads", "0"), ("--most-heads=0",)])
def test_a_former_option_works_with_a_warning(option, called, capsys):
    assert called("collide", *option) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning == "headcount: warning: --most-heads is deprecated, use --max-heads instead"
    assert error == "headcount: error: --max-heads: expected an integer >= 1, got 0"


def test_an_engine_changes_nothing_before_it_is_started(monkeypatch):
    changes = []
    monkeypatch.setattr(jax.config, "update", lambda *change: changes.append(change))
    Engine("ray", "head:6379")
    assert changes == []


def test_every_public_name_can_be_loaded() -> None:
    assert [name for name in headcount.__all__ if getattr(headcount, name, None) is None] == []


@pytest.mark.parametrize(("old", "new"), [("check", "check_assumptions"), ("dense", "approximate_target")])
def test_a_former_name_works_with_a_warning(old: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"headcount.{old} is now headcount.{new}"):
        assert getattr(headcount, old) is getattr(headcount, new)


def test_no_other_name_is_public() -> None:
    assert dir(headcount) == headcount.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        headcount.nothing  # noqa: B018
