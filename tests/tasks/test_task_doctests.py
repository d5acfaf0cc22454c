import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "module",
    [
        "assumptions",
        "coordinates",
        "findings",
        "landscape",
        "library",
        "placement",
        "positions",
        "registry",
        "retrieval",
        "search",
        "smoothness",
        "validation",
    ],
)
def test_every_example_in_a_docstring_runs_as_written(module: str) -> None:
    results = doctest.testmod(importlib.import_module(f"headcount.tasks.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
