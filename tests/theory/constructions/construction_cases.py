"""The table of constructions lives with the benchmark that runs all of it; the tests take a part of it."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from tasks.task_references import Case as TaskCase
from tasks.task_references import reference_target

from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.construction import Construction
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

MAKERS = {"specialise": specialise, "memorise": memorise}


def _table() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "construction_cases.py"
    found = importlib.util.spec_from_file_location("table_of_constructions", path)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module
    found.loader.exec_module(module)
    return module


TABLE = _table()
Case = TABLE.Case
GRID = tuple(TABLE.cases())
CASES = (
    Case("specialise", "bowls", 1, 1, 4, "all", 1e-3),
    Case("specialise", "bowls", 3, 2, 16, "both halves", 1e-2),
    Case("specialise", "max_sum", 6, 4, 64, "first half", 1e-2),
    Case("specialise", "bowls_several", 2, 2, 4, "all", 5e-2),
    Case("memorise", "extremes", 2, 1, 16, "first half", 1e-1),
    Case("memorise", "bowls_ratio", 2, 2, 4, "first half", 5e-2),
)


@cache
def made(case: Any) -> Construction:
    """Each case is built once, whichever test asks."""
    return MAKERS[case.construction](case.build(), length=case.length, epsilon=case.epsilon)


def sequences(task: RetrievalTask, length: int, *, count: int = 8, seed: int = 0) -> FloatArray:
    """Anywhere in the cube, at its corners, and one token at all positions."""
    random = np.random.default_rng(seed)
    anywhere = random.uniform(size=(count, length, task.token_dim))
    repeated = np.broadcast_to(anywhere[:, :1], anywhere.shape)
    return np.concatenate([anywhere, anywhere.round(), repeated, repeated.round()])


def plain_targets(case: Any, x: FloatArray) -> FloatArray:
    """The target by plain NumPy loops."""
    plain = TaskCase(case.task, case.options)
    return np.array([reference_target(plain, sequence) for sequence in x])
