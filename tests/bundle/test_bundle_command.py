import json
import sys
from pathlib import Path

import pytest
from fake_pip import OWN, FakePip

from headcount.bundle import folder
from headcount.bundle.pip import Said
from headcount.bundle.target import USUAL_PLATFORM
from headcount.cli import main
from headcount.commands.bundle import PLATFORM


@pytest.fixture
def pip(monkeypatch) -> FakePip:
    """Instead of the real one."""
    fake = FakePip({}, own=["Provides-Extra: real"])
    monkeypatch.setattr(folder.make, "__defaults__", (fake, lambda _: None))
    return fake


@pytest.fixture
def call(monkeypatch, capsys):
    """`headcount bundle ...`, in this process: its exit code, and what it said."""

    def run(*arguments: str | Path) -> tuple[int | str | None, str, list[str]]:
        monkeypatch.setattr(sys, "argv", ["headcount", "bundle", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return end.value.code or 0, said.out, said.err.splitlines()

    return run


def test_it_prints_the_one_command(call, pip, tmp_path):
    code, out, err = call(tmp_path / "wheels", "--python", "3.12", "--extra", "real")
    assert (code, err) == (0, [])
    command = f"python3.12 -m pip install --no-index --find-links {tmp_path / 'wheels'} 'headcount[real]'"
    assert out.splitlines()[-1].strip() == command
    assert "complete already" not in out


def test_the_usual_platform_is_said_alike():
    assert PLATFORM == USUAL_PLATFORM


def test_it_says_when_there_is_nothing_to_do(call, pip, tmp_path):
    call(tmp_path / "wheels")
    pip.calls.clear()
    code, out, _ = call(tmp_path / "wheels")
    assert code == 0
    assert "It was complete already." in out
    assert pip.calls == []


def test_machines_get_the_same_as_json(call, pip, tmp_path):
    code, out, err = call(tmp_path / "wheels", "--json", "--platform", "win_amd64")
    said = json.loads(out)
    assert (code, err) == (0, [])
    assert [wheel["file"] for wheel in said["wheels"]] == [OWN]
    assert said["target"]["platform"] == "win_amd64"
    assert said["already"] is False
    assert said["bytes"] == (tmp_path / "wheels" / OWN).stat().st_size


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["--python", "3"], "python = '3': allowed is a version such as 3.12"),
        (["--python", "3.9"], "python = '3.9': allowed is >=3.11"),
        (["--platform", "amiga"], "platform = 'amiga': allowed are"),
        (["--extra", "lunch"], "extra = 'lunch': allowed are real"),
    ],
)
def test_a_slip_is_one_line_and_leaves_nothing(arguments, fragment, call, pip, tmp_path):
    code, out, err = call(tmp_path / "wheels", *arguments)
    assert (code, out, len(err)) == (2, "", 1)
    assert fragment in err[0]
    assert not (tmp_path / "wheels").exists()


def test_no_network_is_one_line_and_leaves_nothing(call, tmp_path, monkeypatch):
    said = Said(1, "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: none\n")
    monkeypatch.setattr(folder.make, "__defaults__", (lambda arguments, tell: said, lambda _: None))
    code, out, err = call(tmp_path / "wheels")
    assert (code, out, len(err)) == (2, "", 1)
    assert "no package index could be reached" in err[0]
    assert not (tmp_path / "wheels").exists()
