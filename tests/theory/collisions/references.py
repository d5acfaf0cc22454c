"""Small tasks and models to collide, and what they compute in plain NumPy."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings
from models.model_references import double, reference

from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.tasks.library import Bowl, Projection, bowls, bowls_several, extremes, max_sum
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.landscape import survey
from headcount.theory.collisions.layout import segments_of

LENGTH = 8
quickly = settings(max_examples=50)

# The search for minimisers takes most of the time of the bins, and finds the same again.
landscape_of = cache(survey)


def distance(token):
    """To (1, 0), where the gradient is not a number."""
    return jnp.linalg.norm(token - jnp.asarray([1.0, 0.0]))


NORMAL = RetrievalTask(
    name="nearest and farthest",
    token_dim=2,
    coordinate_functions=(distance, distance),
    extrema=("min", "max"),
    outer=jnp.sum,
    distribution="normal",
)
BOWLS = bowls(dimension=3, token_dim=2)
SEVERAL = bowls_several(dimension=2, token_dim=1, wells=[[0.3], [0.8]], positions=["even", "all"])
EXTREMES = extremes()
TASKS = {
    "bowls": BOWLS,
    "wells at the edge": bowls(dimension=2, token_dim=2, wells=[[0.0, 0.0], [0.95, 0.5]]),
    "several outputs, even positions": SEVERAL,
    "extremes": EXTREMES,
    "linear": max_sum(dimension=2, token_dim=2, directions=[[1.0, -0.5], [0.3, 1.0]]),
}
by_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def segments(task):
    with jax.enable_x64(True):
        return segments_of(task, landscape_of(task, seed=0))


def small(task, *, seed=0, **options):
    sizes = {"heads": 1, "head_dim": 3, "encoder_hidden": (6,), "readout_hidden": (5,)}
    shape = Architecture(token_dim=task.token_dim, output_dim=task.output_dim, **(sizes | options))
    return double(Transformer.initialise(shape, seed=seed))


def positional(task, *, length=LENGTH, **options):
    return small(task, positions="one_hot", length=length, beta=3.0, **options)


def coordinate(function, x):
    """Each f_i of every token, by its formula."""
    if isinstance(function, Bowl):
        farthest = sum(max(entry, 1 - entry) ** 2 for entry in function.well)
        return ((x - function.well) ** 2).sum(axis=1) / farthest
    if isinstance(function, Projection):
        return x @ function.direction
    assert function is distance
    return np.sqrt(((x - [1, 0]) ** 2).sum(axis=1))


def targets(task, x):
    """F_0 of the extrema, in plain NumPy."""
    z = []
    for function, extremum, positions in zip(
        task.coordinate_functions, task.extrema, task.positions, strict=True
    ):
        values = coordinate(function, x[positions.indices(len(x))])
        z.append(values.min() if extremum == "min" else values.max())
    ratio = (1 + z[0]) / (1 + sum(z[1:]))
    several = [sum(z), np.prod(1 + np.array(z)), ratio]
    return np.array(several if task.name == "bowls_several" else [sum(z)])


def scores_and_values(model, x):
    """β (W_Q,i c0)·(W_K,i P(x(t), t)) and W_V,i P(x(t), t) for one layer, in plain NumPy."""
    shape = model.architecture
    activation = {"relu": lambda rows: np.maximum(rows, 0), "tanh": np.tanh}[shape.encoder_activation]
    rows = np.concatenate([x, np.eye(len(x), shape.position_features)], axis=1)
    layers = list(zip(model.encoder.weights, model.encoder.biases, strict=True))
    for weight, bias in layers[:-1]:
        rows = activation(rows @ weight.T + bias)
    tokens = rows @ layers[-1][0].T + layers[-1][1]
    group = np.arange(shape.heads) // shape.group_size
    query = model.attention.query @ model.class_token
    keys = tokens @ model.attention.key[group].transpose(0, 2, 1)
    values = tokens @ model.attention.value[group].transpose(0, 2, 1)
    return shape.logit_scale * np.einsum("hn,htn->ht", query, keys), values.transpose(0, 2, 1)


def apart(model, task, first, second):
    """The gap of each output of the target, and the distance of both representations."""
    one, other = (reference(model, x).representation for x in (first, second))
    return np.abs(targets(task, first) - targets(task, second)), np.linalg.norm(one - other)


def data(task, count, *, length=LENGTH, seed=0):
    random = np.random.default_rng(seed)
    draw = random.uniform if task.distribution == "uniform" else random.normal
    return draw(size=(count, length, task.token_dim))


def plainly_inside(region, x):
    norms = np.sqrt((x**2).sum(axis=1))
    if not all(region.norms[0] - 1e-9 <= norm <= region.norms[1] + 1e-9 for norm in norms):
        return False
    if region.distribution == "uniform":
        return all(-1e-9 <= entry <= 1 + 1e-9 for entry in x.ravel())
    likelihood = -sum(norms**2) / 2
    return region.likelihoods[0] - 1e-9 <= likelihood <= region.likelihoods[1] + 1e-9
