"""The colours of heads, and how errors are written and placed."""

import re
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.report.theme import decades, head_colours, scientific

PAGES = re.findall(r"--page: (#\w{6});", (files("headcount.report") / "templates/page.css").read_text())
SIDES = [(below, enough) for below in (0, 1, 3, 15) for enough in (0, 1, 3, 16)]


def luminance(colour: str) -> float:
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(("below", "enough"), SIDES)
def test_colours_differ_darken_with_heads_and_stand_out_on_both_pages(below, enough):
    colours = head_colours(below=below, enough=enough)
    assert len(set(colours)) == below + enough
    lights = [luminance(colour) for colour in colours]
    for side in (lights[:below], lights[below:]):
        assert side == sorted(side, reverse=True)
    assert len(PAGES) == 2
    assert all(contrast(colour, page) >= 3 for colour in colours for page in PAGES)


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
