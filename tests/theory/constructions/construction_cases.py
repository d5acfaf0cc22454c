"""A construction beside the definition of its task.

The table of constructions lives with the benchmark that runs all of it; the tests take a part of it.
"""

import runpy
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.model_references import reference
from tasks.task_references import Case as TaskCase
from tasks.task_references import reference_target

from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

TABLE = runpy.run_path(str(Path(__file__).parents[3] / "benchmarks" / "construction_cases.py"))
Case = TABLE["Case"]
GRID = tuple(TABLE["cases"]())
CASES = (
    Case("specialise", "bowls", 1, 1, 4, "all", 1e-3),
    Case("specialise", "bowls", 3, 2, 16, "both halves", 1e-2),
    Case("specialise", "max_sum", 6, 4, 64, "first half", 1e-2),
    Case("specialise", "bowls_several", 2, 2, 4, "all", 5e-2),
    Case("memorise", "extremes", 2, 1, 16, "first half", 1e-1),
    Case("memorise", "bowls_ratio", 2, 2, 4, "first half", 5e-2),
)
both = pytest.mark.parametrize("make", [specialise, memorise])


@cache
def made(case):
    """Each case is built once, whichever test asks."""
    make = {"specialise": specialise, "memorise": memorise}[case.construction]
    return make(case.build(), length=case.length, epsilon=case.epsilon)


def sequences(task, length, *, count=8):
    """Anywhere in the cube, at its corners, and one token at all positions."""
    anywhere = np.random.default_rng(0).uniform(size=(count, length, task.token_dim))
    repeated = np.broadcast_to(anywhere[:, :1], anywhere.shape)
    return np.concatenate([anywhere, anywhere.round(), repeated, repeated.round()])


def plain_targets(case, x):
    """The target by plain NumPy loops."""
    plain = TaskCase(case.task, case.options)
    return np.array([reference_target(plain, sequence) for sequence in x])


def defined(task, x):
    """The target by its definition, in float64."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(task.target)(jnp.asarray(x)))


def unfolded(model, x):
    """The model by plain NumPy: there is nothing to compile, which for a few sequences is the faster way."""
    return np.array([reference(model, sequence).output for sequence in x])


def distance(made, x):
    return float(np.abs(unfolded(made.model, x) - defined(made.task, x)).max())


def own(*functions, **options):
    options = {"name": "own", "token_dim": 2, "outer": jnp.sum} | options
    return RetrievalTask(coordinate_functions=functions, **options)
