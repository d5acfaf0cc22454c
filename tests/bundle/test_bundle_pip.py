import os
import sys
from pathlib import Path

import pytest

from headcount.bundle.pip import (
    Said,
    download_command,
    install_command,
    mistake,
    run_pip,
    wheel_command,
)
from headcount.bundle.target import Target
from headcount.errors import StorageError

TARGET = Target.of(python="3.12", platform="manylinux_2_17_aarch64", extras=["real"])


def after(command: list[str], option: str) -> list[str]:
    return [command[place + 1] for place, word in enumerate(command) if word == option]


def test_wheels_alone_are_downloaded_for_the_target():
    command = download_command(Path("own.whl"), Path("into"), TARGET, constraints=Path("pins.txt"))
    assert command[0] == "download"
    assert "--only-binary=:all:" in command
    assert after(command, "--dest") == ["into"]
    assert after(command, "--python-version") == ["3.12"]
    assert after(command, "--platform") == ["manylinux_2_17_aarch64", "manylinux2014_aarch64"]
    assert after(command, "--constraint") == ["pins.txt"]
    assert command[-1] == "own.whl[real]"


def test_without_pins_or_extras_none_are_said():
    command = download_command(Path("own.whl"), Path("into"), Target.of(python="3.12"), more=["a>=1", "b"])
    assert "--constraint" not in command
    assert command[-3:] == ["own.whl", "a>=1", "b"]


def test_the_own_wheel_is_built_without_what_it_needs():
    command = wheel_command(Path("checkout"), Path("into"))
    assert command[0] == "wheel"
    assert "--no-deps" in command
    assert after(command, "--wheel-dir") == ["into"]
    assert command[-1] == "checkout"


def test_the_one_command_looks_nowhere_else():
    assert install_command("wheels", TARGET) == (
        "python3.12 -m pip install --no-index --find-links wheels 'headcount[real]'"
    )
    windows = Target.of(python="3.12", platform="win_amd64")
    assert install_command(".", windows) == "python -m pip install --no-index --find-links . headcount"


RETRYING = "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(...)': /a/\n"
NONE = "ERROR: No matching distribution found for jaxlib==0.10.2\n"
CLASH = """\
ERROR: Cannot install headcount because these package versions have conflicting dependencies.

The conflict is caused by:
    headcount 0.1.0 depends on numpy>=2
    The user requested (constraint) numpy==2.4.6

ERROR: ResolutionImpossible: for help visit the manual
"""


@pytest.mark.parametrize(
    ("output", "fragments"),
    [
        (RETRYING + NONE, ["no package index could be reached"]),
        (NONE, ["jaxlib==0.10.2", "Python 3.12", "manylinux_2_17_aarch64", "allowed are", "constraints.txt"]),
        (CLASH, ["numpy==2.4.6", "constraints.txt", "Python 3.12", "manylinux_2_17_aarch64", "allowed are"]),
        ("/usr/bin/python: No module named pip\n", ["has no pip", "ensurepip"]),
        ("Collecting a\nERROR: the sky fell\n\n", ["exit code 1", "the sky fell"]),
        ("", ["exit code 1", "said nothing"]),
    ],
)
def test_a_failure_of_pip_is_one_line(output, fragments):
    line = str(mistake(Said(1, output), TARGET, pinned=True))
    assert "\n" not in line
    for fragment in fragments:
        assert fragment in line, line


@pytest.mark.parametrize(
    ("python", "advice"), [("3.99", f"such as Python 3.{sys.version_info[1]}"), ("3.11", "a newer manylinux")]
)
def test_what_is_advised_depends_on_the_python(python, advice):
    assert advice in str(mistake(Said(1, NONE), Target.of(python=python), pinned=False))


def test_a_network_that_is_down_is_noticed_whatever_pip_is_told_elsewhere(tmp_path, monkeypatch):
    """Where nothing is tried again pip says nothing of a network."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    said = run_pip(download_command(Path("no-such-package"), tmp_path, TARGET), lambda _: None)
    assert "no package index could be reached" in str(mistake(said, TARGET, pinned=False))


def test_a_full_disk_is_a_matter_of_storage():
    found = mistake(Said(1, "OSError: [Errno 28] No space left on device\n"), TARGET, pinned=False)
    assert isinstance(found, StorageError)


def test_pip_itself_answers(tmp_path):
    told: list[str] = []
    said = run_pip(["download", "--no-index", "--dest", str(tmp_path), "no-such-package"], told.append)
    assert said.code
    assert "no-such-package" in str(mistake(said, TARGET, pinned=False))
