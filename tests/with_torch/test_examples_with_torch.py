"""Every example in a docstring that needs torch runs."""

import doctest
import importlib

import pytest
from test_doctests import MODULES

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("headcount.trained.")])
def test_examples_with_torch_run(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0 and found.failed == 0
