"""Every example in a docstring runs."""

import doctest
import importlib
import pkgutil

import pytest

import headcount

MODULES = [module.name for module in pkgutil.walk_packages(headcount.__path__, "headcount.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
