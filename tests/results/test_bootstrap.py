"""The bootstrap: slices give the same result as one large draw, in little memory."""

import tracemalloc

import numpy as np
import pytest

from headcount.estimate.curve import Curve, Tried
from headcount.results import bootstrap
from headcount.results.bootstrap import interval_95, resampled


@pytest.mark.parametrize("of", [np.mean, np.min])
@pytest.mark.parametrize("size", [7, 100])
def test_slices_of_any_size_give_the_draws_of_one_large_draw(size, of, monkeypatch):
    values = np.random.default_rng(1).exponential(size=size)
    places = np.random.default_rng(2).integers(size, size=(50, size))
    for drawn in (1, 5 * size + 3, 1 << 20):
        monkeypatch.setattr(bootstrap, "MAX_DRAWN", drawn)
        found = resampled(values, 50, np.random.default_rng(2), of=of)
        np.testing.assert_array_equal(found, of(values[places], axis=1))


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(0).normal(size=10_000)
    low, high = interval_95(resampled(values, 400, np.random.default_rng(0)))
    assert high - low == pytest.approx(2 * 1.96 / 100, rel=0.2)


def test_the_curve_of_many_samples_takes_little_memory():
    costs = np.random.default_rng(0).exponential(size=150_000)
    curve = Curve((Tried(1, 0.1, np.zeros((150_000, 1)), costs),), labels=False)
    tracemalloc.start()
    curve.errors()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 2**20
