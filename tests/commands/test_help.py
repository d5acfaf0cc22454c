"""The command line before it does anything: what it loads, and what it says."""

import subprocess
import sys

import jax
import pytest

import headcount
from headcount.commands import cli
from headcount.commands.training import Engine

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


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example(name, called, capsys):
    assert called(name, "--help") == 0
    page = capsys.readouterr().out
    assert f"Usage: headcount {name}" in page and f"headcount {name}" in page.partition("Example:")[2]
    assert "most-heads" not in page
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("option", [("--most-heads", "0"), ("--most-heads=0",)])
def test_a_former_option_works_with_a_warning(option, called, capsys):
    assert called("collide", *option) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning == "headcount: warning: --most-heads is deprecated, use --max-heads instead"
    assert "'--max-heads'" in error


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
