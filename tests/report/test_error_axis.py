import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.report.theme import decades, scientific

errors = st.lists(
    st.floats(min_value=0, allow_infinity=False) | st.just(float("nan")), min_size=1, max_size=9
).map(lambda values: pd.Series(values, dtype=float))


@given(errors)
def test_the_axis_holds_every_error_and_zero_stands_on_its_edge(series):
    axis = decades(series)
    low, high = axis.domain
    placed = axis.place(series).dropna()
    assert 0 < low < high
    assert ((placed >= low) & (placed <= high)).all()
    assert (placed[series == 0] == low).all()


@given(errors)
def test_a_positive_error_is_placed_at_its_own_value(series):
    usual = series[(series > 1e-290) & (series < 1e290)]
    pd.testing.assert_series_equal(decades(series).place(usual), usual, rtol=1e-12)


@given(errors, st.integers(2, 9))
def test_ticks_stay_on_the_axis_and_few(series, most):
    axis = decades(series)
    ticks = axis.ticks(most=most)
    assert len(ticks) <= max(most + 1, 4)
    assert axis.domain[0] == pytest.approx(ticks[0])
    assert ticks[-1] <= axis.domain[1] * (1 + 1e-12)


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_number_is_written_to_two_digits(value):
    assert np.isclose(float(scientific(value)), value, rtol=0.051)
