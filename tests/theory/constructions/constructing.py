"""A construction beside the definition of its task."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.model_references import reference

from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.construction import Construction
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Maker = Callable[..., Construction]

both = pytest.mark.parametrize("make", [specialise, memorise])


def defined(task: RetrievalTask, x: FloatArray) -> FloatArray:
    """The target by its definition, in float64."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(task.target)(jnp.asarray(x)))


def unfolded(model: Transformer, x: FloatArray) -> FloatArray:
    """The model by plain NumPy: there is nothing to compile, which for a few sequences is the faster way."""
    return np.array([reference(model, sequence).output for sequence in x])


def distance(made: Construction, x: FloatArray) -> float:
    return float(np.abs(unfolded(made.model, x) - defined(made.task, x)).max())


def own(*functions: Callable[..., Any], **options: Any) -> RetrievalTask:
    options = {"name": "own", "token_dim": 2, "outer": jnp.sum} | options
    return RetrievalTask(coordinate_functions=functions, **options)
