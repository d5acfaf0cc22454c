"""Every example in a docstring runs."""

import doctest
import importlib
from pathlib import Path

import pytest

import headcount

ROOT = Path(headcount.__file__).parent
MODULES = [
    ".".join(("headcount", *path.relative_to(ROOT).with_suffix("").parts))
    for path in sorted(ROOT.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        pytest.skip("needs torch; with_torch/test_examples_with_torch.py runs it")
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0
