"""Bounds of a mean rise: how often they hold, also where hardly any sample changes."""

import numpy as np
import pytest

from headcount.trained.rise import bound_to_expect, rise_of, step_of

DRAWS = 300


def normal(random, count):
    return random.normal(0.3, 1.0, count), 0.3, 0.0


def skewed(random, count):
    return random.exponential(0.2, count) - 0.05, 0.15, 0.0


def flips(random, count):
    changes = random.random(count) < 0.03
    return np.where(changes, random.choice([-1.0, 1.0], count, p=[0.2, 0.8]), 0.0), 0.03 * 0.6, 1.0


@pytest.mark.parametrize("count", [20, 60, 200])
@pytest.mark.parametrize("kind", [normal, skewed, flips])
def test_the_upper_bound_holds_in_nineteen_of_twenty_draws(kind, count):
    random = np.random.default_rng(0)
    held = 0
    for _ in range(DRAWS):
        values, mean, step = kind(random, count)
        held += rise_of(values, step=step).high >= mean
    assert held / DRAWS >= (0.9 if kind is skewed and count < 100 else 0.93)


@pytest.mark.parametrize("kind", [normal, skewed, flips])
def test_the_bound_to_expect_is_that_of_other_samples(kind):
    random = np.random.default_rng(1)
    guesses, bounds = [], []
    for _ in range(60):
        values, _, step = kind(random, 100)
        guesses.append(bound_to_expect(values, 200, step=step))
        values, mean, step = kind(random, 200)
        bounds.append(rise_of(values, step=step).high)
    assert np.mean(guesses) - mean == pytest.approx(np.mean(bounds) - mean, rel=0.25)


def test_the_bound_comes_near_with_many_samples():
    values = np.random.default_rng(0).normal(0.1, 1.0, 10_000)
    found = rise_of(values)
    assert found.low < 0.1 < found.high < 0.14


def test_samples_that_all_stay_leave_a_doubt_where_the_measure_is_discrete():
    unchanged = np.zeros(50)
    assert rise_of(unchanged).high == 0
    assert 0.02 < rise_of(unchanged, step=1.0).high < 0.1


def test_the_mean_is_that_of_the_samples_alone():
    found = rise_of(np.array([0.0, 0.0, 3.0]), step=10.0)
    assert found.mean == 1.0 and found.samples == 3 and found.low < 1.0 < found.high


def test_a_measure_of_few_values_is_discrete():
    assert step_of(np.array([-1.0, 0.0, -1.0])) == 1.0
    assert step_of(np.zeros(5)) == 0.0
    assert step_of(np.random.default_rng(0).normal(size=40)) == 0.0
