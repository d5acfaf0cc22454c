"""How much of headcount a command loads: the bounds of benchmarks/loaded_modules.py."""

import runpy
from functools import cache
from pathlib import Path

import pytest

COMMANDS = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "loaded_modules.py"))["COMMANDS"]
loaded = cache(lambda name: COMMANDS[name].loaded())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_nothing_of_another_experiment(name: str) -> None:
    assert not [module for module in loaded(name) if module.startswith(COMMANDS[name].without)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_loads_few_modules(name: str) -> None:
    assert len(loaded(name)) <= COMMANDS[name].limit
