import doctest
import importlib
import pkgutil

import headcount.models


def test_every_example_in_a_docstring_runs_as_written() -> None:
    names = [module.name for module in pkgutil.iter_modules(headcount.models.__path__, "headcount.models.")]
    results = [doctest.testmod(importlib.import_module(name)) for name in names]
    assert sum(result.attempted for result in results) > 0
    assert [name for name, result in zip(names, results, strict=True) if result.failed] == []
