"""The curves of a head sweep, from members whose outputs are made up."""

from dataclasses import replace

import numpy as np
import pytest
from believable_curves import SAMPLES, curve_of, sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.estimate.curve import Curve, Tried, values


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_distance_falls_at_d_whatever_the_noise(noise):
    curve = sweep(4, noise=noise)
    distances, errors = values(curve.distances()), values(curve.errors())
    assert np.all(distances[:3] > 0.2) and np.all(distances[3:] < 1e-3)
    np.testing.assert_allclose(errors[3:], noise**2 + 1e-4, rtol=0.1)


def test_one_sample_far_off_is_in_the_error_and_not_in_the_distance():
    curve = sweep(2)
    member = curve.selected(2)
    far = np.where(np.arange(SAMPLES) == 7, 50.0, 0.0)
    off = replace(member, outputs=member.outputs + far[:, None], costs=member.costs + far**2)
    spoilt = curve_of(off if tried is member else tried for tried in curve.tried)
    assert values(spoilt.errors())[1] > 0.5
    assert values(spoilt.distances())[1] < 1.1 * values(curve.distances())[1]


def test_the_selected_member_has_the_lowest_validation_error_and_finished():
    errors = (np.nan, 0.5, 0.2, 0.4)
    curve = curve_of(Tried(2, error, np.zeros((5, 1)), np.full(5, error)) for error in errors)
    assert curve.selected(2).validation_error == 0.2 and curve.heads == [2]


def test_the_reference_leaves_out_members_that_got_stuck():
    curve = sweep(2)
    stuck = Tried(8, 0.9, np.zeros((SAMPLES, 1)), np.ones(SAMPLES))
    with_stuck = curve_of((*curve.tried, stuck))
    assert stuck not in with_stuck.reference
    assert len(with_stuck.reference) == len(curve.reference) == 6
    np.testing.assert_array_equal(values(with_stuck.distances()), values(curve.distances()))


def test_a_member_is_never_its_own_reference():
    distances = values(sweep(1, heads=(1, 2), starts=1).distances())
    np.testing.assert_allclose(distances, 2e-4, rtol=0.2)  # two independent errors of 1e-2 apart


@settings(max_examples=20)
@given(shift=st.floats(-50, 50), seed=st.integers(0, 100))
def test_scores_of_labels_may_be_shifted_for_each_sample(shift, seed):
    """Softmax ignores it, so it makes no distance."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(6, 40, 3))
    curves = [
        Curve(
            tuple(Tried(place // 2 + 1, 0.1, each, np.ones(40)) for place, each in enumerate(put_out)), True
        )
        for put_out in (scores, scores + shift * random.normal(size=(6, 40, 1)))
    ]
    plain, shifted = (values(curve.distances()) for curve in curves)
    np.testing.assert_allclose(shifted, plain, rtol=1e-6)


def test_intervals_hold_the_value_and_narrow_with_more_samples():
    point = sweep(3).errors()[0]
    assert point.low < point.value < point.high
    few = [
        replace(member, outputs=member.outputs[:100], costs=member.costs[:100]) for member in sweep(3).tried
    ]
    of_few = curve_of(few).errors()[0]
    assert of_few.high - of_few.low > 2 * (point.high - point.low)
