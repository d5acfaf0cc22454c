"""Numbers as they are written everywhere."""

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headcount.results.numbers import MAX_FOLD, fold, scientific

positive = st.floats(1e-300, 1e300)


@given(value=positive)
def test_what_is_written_is_the_value_to_two_digits(value):
    assert np.isclose(float(scientific(value)), value, rtol=0.051)
    assert re.fullmatch(r"\d\.\de[+-]\d+", scientific(value))


@given(before=positive, after=st.one_of(st.just(0.0), positive))
def test_a_ratio_is_written_until_it_says_nothing_more(before, after):
    written = fold(before, after)
    if before > MAX_FOLD * after:
        assert written == "more than a million-fold"
    else:
        ratio = float(written.removesuffix("-fold").replace(",", ""))
        assert abs(ratio - before / after) <= max(0.051, 0.051 * before / after)


def test_nothing_over_nothing_is_no_ratio():
    assert fold(0, 0) == "1.0-fold"
