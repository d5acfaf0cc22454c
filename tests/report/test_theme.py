"""The colours of heads, and how errors are written and placed."""

import re
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.report.theme import decades, head_colours

PAGES = re.findall(r"--page: (#\w{6});", (files("headcount.report") / "templates/page.css").read_text())


def luminance(colour: str) -> float:
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted([luminance(one), luminance(other)])
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("below", [0, 1, 15])
@pytest.mark.parametrize("enough", [0, 1, 16])
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


@given(errors, st.integers(2, 9))
def test_the_axis_holds_every_error_at_its_value_zero_on_its_edge_and_few_ticks(series, most):
    axis = decades(series)
    low, high = axis.domain
    placed = axis.place(series).dropna()
    assert 0 < low < high and placed.between(low, high).all() and (placed[series == 0] == low).all()
    usual = series[(series > 1e-290) & (series < 1e290)]
    pd.testing.assert_series_equal(axis.place(usual), usual, rtol=1e-12)
    ticks = axis.ticks(most=most)
    assert len(ticks) <= max(most + 1, 4)
    assert ticks[0] == pytest.approx(low) and ticks[-1] <= high * (1 + 1e-12)
