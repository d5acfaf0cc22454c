"""One head for D coordinates: by orders of magnitude, and by a tournament."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models.model_references import reference

from headcount.errors import InvalidInput
from headcount.models.bounded import largest_entry
from headcount.models.transformer import Transformer
from headcount.reproduce.item import ITEMS
from headcount.reproduce.recipe import FULL, QUICK
from headcount.tasks.library import bowls, bowls_product, extremes, max_sum
from headcount.theory.constructions.magnitudes import magnitudes, thresholds
from headcount.theory.constructions.tournament import tournament

TASKS = {
    "bowls": bowls(dimension=3, token_dim=2),
    "max_sum": max_sum(dimension=4, token_dim=3),
    "extremes": extremes(),
}


def target(task, x):
    with jax.enable_x64(True):
        return np.asarray(jax.vmap(task.target)(x))


def sequences(task, length):
    """Drawn, at corners, and of tokens that tie."""
    x = np.random.default_rng(length).uniform(size=(90, length, task.token_dim))
    x[::3] = x[::3].round()
    x[1::3] = x[1::3, :1]
    return x


@pytest.mark.parametrize("readout", ["step", "relu"])
@pytest.mark.parametrize("length", [1, 128])
@pytest.mark.parametrize("name", TASKS)
def test_one_head_by_orders_of_magnitude_keeps_its_bound(name, length, readout):
    task = TASKS[name]
    made = magnitudes(task, length=length, epsilon=0.3, readout=readout)
    x = sequences(task, length)
    worst = np.abs(made.predict(x) - target(task, x)).max()
    assert worst <= made.error.total < 0.3
    assert made.error.total / 20 < worst, "the bound is of the size of the error"
    shape = made.model.architecture
    assert (shape.heads, shape.head_dim, shape.layers) == (1, task.dimension, 1)


def test_the_model_is_the_formula():
    task = TASKS["bowls"]
    for readout in ("step", "relu"):
        made = magnitudes(task, length=6, epsilon=0.5, readout=readout)
        x = sequences(task, 6)[:8]
        plainly = [reference(made.model, sequence).output for sequence in x]
        np.testing.assert_allclose(made.predict(x), plainly, rtol=1e-9, atol=1e-9)


def test_with_a_step_the_size_does_not_depend_on_the_length_and_entries_are_bounded():
    made = [magnitudes(TASKS["bowls"], length=length, epsilon=0.2) for length in (8, 128)]
    assert len({each.model.counted_parameters() for each in made}) == 1
    for each in made:
        tokens = jax.vmap(lambda x, made=each: made.model.encoder(x.T))(sequences(each.task, each.length))
        assert largest_entry(each.model) <= 1 >= np.linalg.norm(tokens, axis=1).max()
    steep = [magnitudes(TASKS["bowls"], length=T, epsilon=0.2, readout="relu").model for T in (8, 16)]
    assert largest_entry(steep[0]) > 1e9 and largest_entry(steep[1]) > 1e3 * largest_entry(steep[0])


@given(base=st.integers(2, 200), levels=st.integers(2, 60))
def test_each_level_is_smaller_by_the_base_or_more(base, levels):
    at = thresholds(base, levels)
    assert (at[1:] * base <= at[:-1] * (1 + 1e-12)).all() and at[-1] > 0


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: magnitudes(bowls_product(dimension=2), length=4, epsilon=0.1), "expected a sum of minima"),
        (
            lambda: magnitudes(bowls(dimension=2, positions="first half"), length=4, epsilon=0.1),
            "positions: expected all, got first half",
        ),
        (lambda: magnitudes(extremes(), length=128, epsilon=0.001), "float64 has room for; epsilon = "),
        (lambda: magnitudes(extremes(), length=4, epsilon=0.1, readout="tanh"), "readout: expected one of"),
        (
            lambda: tournament(TASKS["max_sum"], length=12),
            r"length: expected a power of two up to 2\^4, got 12",
        ),
        (lambda: tournament(TASKS["max_sum"], length=16, layers=3), r"up to 2\^3, got 16"),
        (lambda: tournament(TASKS["max_sum"], length=16, hidden=64), "hidden: expected at least 96"),
        (lambda: tournament(TASKS["bowls"], length=8), "expected a sum of maxima of projections, got bowls"),
    ],
)
def test_what_cannot_be_built_is_refused(attempt, words):
    with pytest.raises(InvalidInput, match=words):
        attempt()


def test_what_is_said_to_be_possible_is():
    with pytest.raises(InvalidInput) as refusal:
        magnitudes(TASKS["bowls"], length=128, epsilon=1e-3, readout="relu")
    possible = float(str(refusal.value).split("epsilon = ")[-1].split(" ")[0])
    assert magnitudes(TASKS["bowls"], length=128, epsilon=possible, readout="relu").error.total < possible


@pytest.mark.parametrize(("length", "layers"), [(2, 1), (4, 2), (4, 4), (16, 4)])
def test_a_tournament_has_no_error_but_rounding(length, layers):
    task = max_sum(dimension=3, token_dim=2)
    model = tournament(task, length=length, layers=layers)
    assert isinstance(model, Transformer)
    x = np.random.default_rng(0).normal(size=(64, length, 2))
    with jax.enable_x64(True):
        found = np.asarray(jax.vmap(model)(x))
    np.testing.assert_allclose(found, target(task, x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found[0], reference(model, x[0]).output, rtol=0, atol=1e-12)


@pytest.mark.parametrize("recipe", [FULL, QUICK], ids=["full", "quick"])
def test_its_weights_are_of_the_very_class_that_is_trained(recipe):
    lengths = {8} if recipe.quick else {8, 16}
    wide = {
        trial.length: trial
        for trial in ITEMS["deep_readout"].trials(recipe)
        if trial.architecture.head_dim > 8 and len(trial.architecture.readout_hidden) == 4
    }
    assert set(wide) == lengths
    for length, trial in wide.items():
        assert tournament(trial.task.build(), length=length).architecture == trial.architecture
