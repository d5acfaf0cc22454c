"""How much of headcount a command loads: the bounds of benchmarks/loaded_modules.py."""

import runpy
from pathlib import Path

import pytest

COMMANDS = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "loaded_modules.py"))["COMMANDS"]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_loads_what_it_needs(command) -> None:
    loaded = command.loaded()
    assert not [name for name in loaded if name.startswith(command.without)]
    assert len(loaded) <= command.limit
