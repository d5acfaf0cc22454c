"""Salience against a model that is known to look at D tokens and at no others."""

import jax
import numpy as np

from headcount import specialise
from headcount.estimate.salience import salience
from headcount.models.architecture import Architecture
from headcount.models.transformer import Transformer
from headcount.tasks.library import bowls


def test_a_built_model_shows_the_tokens_that_its_target_depends_on():
    task = bowls(dimension=3, token_dim=2)
    built = specialise(task, length=8, epsilon=0.05)
    x = np.asarray(task.inputs(jax.random.key(0), 200, 8))
    found = salience(built.model, x)
    np.testing.assert_allclose(found.shares.max(axis=1), np.ones(200))
    moves = np.linalg.norm(jax.vmap(jax.grad(lambda x: task.target(x)[0]))(x), axis=2)
    clear = (moves / moves.max(axis=1, keepdims=True) > 0.3).sum(axis=1)
    assert np.median(found.counts(0.1)) == np.median(clear) or abs(found.counts(0.1) - clear).mean() < 1


def test_hidden_tokens_never_matter():
    model = Transformer.initialise(Architecture(token_dim=2, heads=3, head_dim=4, output_dim=2), seed=0)
    random = np.random.default_rng(0)
    x, mask = random.normal(size=(20, 6, 2)).astype(np.float32), random.random((20, 6)) < [1.0] + 5 * [0.5]
    found = salience(model, x, mask)
    assert not found.shares[~mask].any()
    assert np.all(found.counts(0.0) <= mask.sum(axis=1))
    assert found.typical(0.0, 1.0) == mask.sum(axis=1).max()


def test_an_average_moves_with_every_token():
    model = Transformer.initialise(Architecture(token_dim=2, heads=1, head_dim=4, beta=1e-6), seed=0)
    x = np.random.default_rng(0).normal(size=(50, 6, 2)).astype(np.float32)
    assert np.median(salience(model, x).counts(0.1)) >= 5
