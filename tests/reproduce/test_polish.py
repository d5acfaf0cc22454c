"""Levenberg–Marquardt: its equations against a plain reference, and that it never makes a member worse."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import tiny_grid

from headcount.engine import polish as polishing
from headcount.engine.data import data_of
from headcount.engine.polish import _normal_equations, _of, _Problem, polish
from headcount.engine.train import train

pytestmark = pytest.mark.usefixtures("compiled_quickly")


@pytest.fixture(scope="module", params=["max_sum", "bowls_several"])
def trained(request):
    """A trial, what training made of it, and its data."""
    (trial,) = tiny_grid(task=request.param, train_samples=300, batch_size=64).trials()
    (outcome,), (data, _) = train([trial]), data_of([trial])
    return trial, outcome, data


def test_normal_equations_are_those_of_the_whole_jacobian(trained):
    _, outcome, data = trained
    with jax.enable_x64(True):
        problem, place = _Problem.of(outcome.model, data, 0)
        x, y = _of(data.train, 0)
        curvature, slope = _normal_equations(problem, place, x, y)

        def residuals(place):
            return jax.vmap(lambda x, y: problem.residual(place, x, y))(x, y).ravel()

        jacobian, residual = np.asarray(jax.jacfwd(residuals)(place)), np.asarray(residuals(place))
    np.testing.assert_allclose(curvature, jacobian.T @ jacobian, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(slope, jacobian.T @ residual, rtol=1e-9, atol=1e-12)


def test_a_polish_lowers_the_training_error_and_keeps_the_best_on_validation(trained):
    _, before, data = trained
    after = polish(before.model, data, 0, steps=10)
    assert after.train_error < 0.9 * before.train_error
    assert after.validation_error < before.validation_error


def test_errors_are_those_of_the_engine_and_stay_where_a_step_cannot_be_solved(trained, monkeypatch):
    _, before, data = trained
    monkeypatch.setattr(polishing, "_step", lambda curvature, slope, damping: slope * jnp.nan)
    for steps in (0, 5):
        after = polish(before.model, data, 0, steps=steps)
        assert after.steps == 0
        for name in ("train_error", "validation_error", "test_error"):
            assert getattr(after, name) == pytest.approx(getattr(before, name), rel=1e-4)


def test_a_trial_may_ask_for_it_and_is_then_another_trial(trained):
    plain, before, _ = trained
    asking = replace(plain, training=replace(plain.training, polish_steps=3))
    assert asking.id != plain.id
    (after,) = train([asking])
    assert after.validation_error < before.validation_error
    assert after.best_step == before.best_step
