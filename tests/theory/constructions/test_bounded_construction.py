"""Constructions under Assumption 1: the same outputs, and nothing beyond the limits."""

import jax
import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.models.bounded import largest_entry
from headcount.tasks.library import bowls, bowls_several, extremes, max_sum
from headcount.theory.constructions.bounded import bounded
from headcount.theory.constructions.encoding import GATE
from headcount.theory.constructions.magnitudes import magnitudes
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

CASES = {
    "one hidden layer in P": (bowls(dimension=3, token_dim=2), 0.05, GATE),
    "a constant beyond 1, coordinates out of range": (max_sum(dimension=2, token_dim=2), 0.05, GATE),
    "gates": (bowls(dimension=2, token_dim=2, positions="first half"), 0.1, GATE),
    "a gate of one's own": (bowls(dimension=2, token_dim=1, positions="first half"), 0.1, -5.0),
    "gates and cuts, F_0 fitted, three outputs": (
        bowls_several(dimension=2, token_dim=1, positions=["first half", "second half"]),
        0.5,
        GATE,
    ),
}


@pytest.mark.parametrize(("task", "epsilon", "gate"), CASES.values(), ids=CASES)
def test_the_outputs_are_the_same_and_the_assumption_holds(task, epsilon, gate):
    free = specialise(task, length=8, epsilon=epsilon, gate=gate)
    within = bounded(free)
    x = np.random.default_rng(0).uniform(size=(64, 8, task.token_dim))
    x[::4] = x[::4].round()
    np.testing.assert_allclose(within.predict(x), free.predict(x), rtol=0, atol=1e-9)
    assert max(largest_entry(within.model), largest_norm(within.model, x)) <= 1 + 1e-12
    assert max(largest_entry(free.model), largest_norm(free.model, x)) > 1.2


def largest_norm(model, x):
    """Of what P gives, before anything is scaled into the unit ball."""
    places = np.eye(8) if model.architecture.positions == "one_hot" else np.zeros((8, 0))
    seen = np.concatenate([x, np.broadcast_to(places, (len(x), *places.shape))], axis=2)
    with jax.enable_x64(True):
        return float(np.linalg.norm(jax.vmap(lambda x: model.encoder(x.T))(seen), axis=1).max())


@pytest.mark.parametrize("task", [extremes(), bowls(dimension=2, token_dim=1)], ids=["linear", "knots"])
def test_the_four_hidden_layers_of_one_wide_head_keep_within_the_limits_too(task):
    free = memorise(task, length=4, epsilon=0.2)
    within = bounded(free)
    x = np.random.default_rng(0).uniform(size=(64, 4, task.token_dim))
    np.testing.assert_allclose(within.predict(x), free.predict(x), rtol=0, atol=1e-9)
    assert largest_entry(within.model) <= 1 + 1e-12 < largest_entry(free.model)
    assert len(within.model.architecture.readout_hidden) == 4
    assert "but for F, which has 4 hidden layers" in within.guarantees[-1]


def test_what_the_assumption_is_not_about_is_refused():
    with pytest.raises(InvalidInput, match="expected specialise or memorise with one layer, got"):
        bounded(specialise(extremes(), length=4, epsilon=0.2, layers=2, heads=1))
    with pytest.raises(InvalidInput, match="got magnitudes with 1 layer"):
        bounded(magnitudes(extremes(), length=4, epsilon=0.5, readout="relu"))
