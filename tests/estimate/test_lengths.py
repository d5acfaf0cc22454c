"""Slopes of the error over the length, from curves that are made up."""

import numpy as np
import pytest
from believable_curves import curve_of
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.estimate.curve import Curve, Point, Tried
from headcount.estimate.lengths import over_groups, over_two

LENGTHS = np.repeat([8, 16, 32], 200)


def curve(*exponents: float, lengths=LENGTHS, noise=1.0) -> Curve:
    """A member for each number of heads, whose costs are powers of the length."""
    return curve_of(
        Tried(heads, 0.1, np.zeros((len(lengths), 1)), 1e-3 * lengths**exponent * noise)
        for heads, exponent in enumerate(exponents, start=1)
    )


@settings(max_examples=20)
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=4))
def test_the_exponents_are_found_over_groups(exponents):
    found = over_groups(curve(*exponents), LENGTHS)
    assert found["lengths"] == [8.0, 16.0, 32.0]
    np.testing.assert_allclose([row["slope"] for row in found["slopes"]], exponents, atol=1e-6)


def test_errors_are_shares_of_how_much_the_targets_of_a_length_vary():
    """Targets whose variance falls as the errors do: then nothing changes with the length."""
    targets = np.random.default_rng(0).normal(size=(len(LENGTHS), 1)) * (LENGTHS**-0.5)[:, None]
    (row,) = over_groups(curve(-1.0), LENGTHS, targets)["slopes"]
    assert row["slope"] == pytest.approx(0, abs=0.15)


def test_the_interval_holds_the_slope_that_made_the_errors():
    noise = np.random.default_rng(1).exponential(size=len(LENGTHS))
    (row,) = over_groups(curve(0.5, noise=noise), LENGTHS)["slopes"]
    low, high = row["interval"]
    assert low < 0.5 < high and high - low < 0.5


@settings(max_examples=25)
@given(st.lists(st.integers(2, 9), min_size=8, max_size=40))
def test_any_lengths_are_grouped_or_say_nothing(lengths):
    found = over_groups(curve(1.0, lengths=np.array(lengths)), np.array(lengths))
    assert found is None or all(np.isfinite(row["slope"]) for row in found["slopes"])
    assert over_groups(curve(1.0), np.full(len(LENGTHS), 8)) is None, "they do not differ"


@given(st.floats(-3, 3), st.floats(1.0, 2.0))
def test_between_two_lengths_the_interval_holds_the_slope(exponent, spread):
    short, long = (Point(2, value, value / spread, value * spread) for value in (1e-3, 1e-3 * 2**exponent))
    (row,) = over_two([short, Point(3, 1.0, 1.0, 1.0)], [long], lengths=(8, 16))["slopes"]
    assert row["slope"] == pytest.approx(exponent, abs=1e-9)
    low, high = row["interval"]
    assert low <= row["slope"] <= high
    assert high - low == pytest.approx(4 * np.log2(spread), abs=1e-9)
