"""The command line before it does anything: what it loads, and what it says."""

import subprocess
import sys

import jax
import pytest

from headcount.commands import cli
from headcount.commands.training import Engine

HEAVY = ("jax", "jaxlib", "numpy", "pandas", "pyarrow", "scipy", "equinox", "altair", "pydantic")


def called(monkeypatch: pytest.MonkeyPatch, *arguments: str, program: str = "headcount") -> int:
    monkeypatch.setattr("sys.argv", [program, *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "code",
    [
        "import headcount",
        "import sys; sys.argv = ['headcount', '--help']\nfrom headcount.commands.cli import main\n"
        "try: main()\nexcept SystemExit: pass",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded_before_there_is_work(code: str) -> None:
    count = f"{code}\nimport sys; print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_program_is_called_headcount_however_it_was_started(monkeypatch, capsys) -> None:
    assert called(monkeypatch, "--help", program="/somewhere/pytest/__main__.py") == 0
    assert "Usage: headcount [OPTIONS] COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help_with_an_example(name: str, monkeypatch, capsys) -> None:
    assert called(monkeypatch, name, "--help") == 0
    page = capsys.readouterr().out
    assert f"Usage: headcount {name}" in page and f"headcount {name}" in page.partition("Example:")[2]
    assert "most-heads" not in page


def test_an_unknown_command_suggests_a_known_one(monkeypatch, capsys) -> None:
    assert called(monkeypatch, "estimat") == 2
    assert "Did you mean 'estimate'?" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--most-heads", "0"), ("--most-heads=0",)])
def test_a_former_option_works_with_a_warning(option, monkeypatch, capsys) -> None:
    assert called(monkeypatch, "collide", *option) == 2
    warning, error = capsys.readouterr().err.splitlines()
    assert warning == "headcount: warning: --most-heads is deprecated, use --max-heads instead"
    assert "'--max-heads'" in error


def test_an_engine_changes_nothing_before_it_is_started(monkeypatch) -> None:
    changes = []
    monkeypatch.setattr(jax.config, "update", lambda *change: changes.append(change))
    Engine("ray", "head:6379")
    assert changes == []
