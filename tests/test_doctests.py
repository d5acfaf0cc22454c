"""Every example in a docstring runs."""

import doctest
import importlib
from pathlib import Path

import pytest

import headcount

SOURCE = Path(headcount.__path__[0])
MODULES = [
    ".".join(("headcount", *path.relative_to(SOURCE).with_suffix("").parts))
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>>" in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
