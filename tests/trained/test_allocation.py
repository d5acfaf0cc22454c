"""Shares of heads over layers: the best of all there are."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headcount.errors import InvalidInput
from headcount.trained.allocation import filled_in, shares, uniform, without_noise

quickly = settings(max_examples=50, deadline=None)
numbers = st.floats(-10, 10)
tables = st.lists(
    st.integers(1, 5).flatmap(lambda size: arrays(float, size, elements=numbers)), min_size=1, max_size=4
)


@quickly
@given(tables, st.data())
def test_shares_are_the_best_of_all(effects, data):
    total = data.draw(st.integers(len(effects), sum(map(len, effects))))
    found = shares(effects, total)
    assert sum(found) == total
    assert all(1 <= count <= len(layer) for count, layer in zip(found, effects, strict=True))

    def cost(counts):
        return sum(layer[count - 1] for count, layer in zip(counts, effects, strict=True))

    everything = product(*(range(1, len(layer) + 1) for layer in effects))
    assert cost(found) == pytest.approx(min(cost(counts) for counts in everything if sum(counts) == total))


@quickly
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.data())
def test_equal_shares_fit_and_add_up(heads, data):
    total = data.draw(st.integers(len(heads), sum(heads)))
    found = uniform(heads, total)
    assert sum(found) == total
    assert all(1 <= count <= most for count, most in zip(found, heads, strict=True))


@quickly
@given(st.integers(1, 6), st.integers(1, 12), st.integers(1, 12))
def test_layers_of_one_size_differ_by_at_most_a_head(layers, heads, share):
    found = uniform([heads] * layers, min(layers * heads, layers * share))
    assert max(found) - min(found) <= 1


@quickly
@given(arrays(float, st.integers(1, 8), elements=numbers))
def test_smoothing_leaves_a_falling_table_and_its_mean(effects):
    found = without_noise(effects)
    assert (np.diff(found) <= 0).all()
    assert found.mean() == pytest.approx(effects.mean(), abs=1e-9)
    falling = np.sort(effects)[::-1]
    np.testing.assert_allclose(without_noise(falling), falling)


def test_what_was_measured_stays_where_tables_are_filled_in():
    found = filled_in([1, 3, 6], [3.0, 1.0, 0.0])
    assert len(found) == 6
    assert [found[0], found[2], found[5]] == [3.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: shares([np.ones(3)] * 2, 1), "total: expected an integer from 2 to 6, got 1"),
        (lambda: shares([np.ones(3)] * 2, 7), "total: expected an integer from 2 to 6, got 7"),
        (lambda: shares([], 1), "effects: expected at least one layer"),
        (lambda: shares([np.array([1.0, np.nan])], 1), "effects: expected finite numbers"),
        (lambda: filled_in([2, 3], [1.0, 0.0]), "counts: expected ascending integers from 1"),
    ],
)
def test_bad_input_is_refused_in_a_line(call, line):
    with pytest.raises(InvalidInput, match=line):
        call()
