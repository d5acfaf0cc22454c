"""The curves of a head sweep, from members whose outputs are made up."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.estimate.curve import Curve, Tried, values

SAMPLES = 3000


def sweep(dimension, *, heads=range(1, 9), noise=0.0, sharpness=1e-2, starts=2, seed=0):
    """Members that lack a part of the target below D, are near it from D on, and never see the noise."""
    random = np.random.default_rng(seed)
    parts = random.normal(size=(dimension, SAMPLES)) / np.sqrt(dimension)
    truth, seen = parts.sum(axis=0), noise * random.normal(size=SAMPLES)
    tried = []
    for count in heads:
        for _ in range(starts):
            output = parts[: min(count, dimension)].sum(axis=0) + sharpness * random.normal(size=SAMPLES)
            costs = (output - truth - seen) ** 2
            tried.append(Tried(count, float(costs.mean()), output[:, None], costs))
    return Curve(tuple(tried), labels=False)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_distance_falls_at_d_whatever_the_noise(noise):
    curve = sweep(4, noise=noise)
    distances, errors = values(curve.distances()), values(curve.errors())
    assert np.all(distances[:3] > 0.2)
    assert np.all(distances[3:] < 1e-3)
    np.testing.assert_allclose(errors[3:], noise**2 + 1e-4, rtol=0.1)


def test_one_sample_far_off_is_in_the_error_and_not_in_the_distance():
    curve = sweep(2)
    member = curve.selected(2)
    off = member.outputs.copy()
    off[7] += 50.0
    costs = member.costs.copy()
    costs[7] += 2500.0
    others = tuple(tried for tried in curve.tried if tried is not member)
    spoilt = Curve((*others, Tried(2, member.validation_error, off, costs)), labels=False)
    assert values(spoilt.errors())[1] > 0.5
    assert values(spoilt.distances())[1] < 1.1 * values(curve.distances())[1]


def test_the_selected_member_has_the_lowest_validation_error_and_finished():
    costs, outputs = np.ones(5), np.zeros((5, 1))
    errors = (np.nan, 0.5, 0.2, 0.4)
    curve = Curve(tuple(Tried(2, error, outputs, costs * error) for error in errors), labels=False)
    assert curve.selected(2).validation_error == 0.2
    assert curve.heads == [2]


def test_the_reference_leaves_out_members_that_got_stuck():
    curve = sweep(2)
    stuck = Tried(8, 0.9, np.zeros((SAMPLES, 1)), np.ones(SAMPLES))
    with_stuck = Curve((*curve.tried, stuck), labels=False)
    assert stuck not in with_stuck.reference
    assert len(with_stuck.reference) == len(curve.reference) == 6
    np.testing.assert_array_equal(values(with_stuck.distances()), values(curve.distances()))


def test_a_member_is_never_its_own_reference():
    curve = sweep(1, heads=(1, 2), starts=1)
    distances = values(curve.distances())
    np.testing.assert_allclose(distances, 2e-4, rtol=0.2)  # two independent errors of 1e-2 apart


@settings(max_examples=20, deadline=None)
@given(shift=st.floats(-50, 50), seed=st.integers(0, 100))
def test_scores_of_labels_may_be_shifted_for_each_sample(shift, seed):
    """Softmax ignores it, so it makes no distance."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=(6, 40, 3))
    tried = [Tried(place // 2 + 1, 0.1, score, np.ones(40)) for place, score in enumerate(scores)]
    moved = [
        Tried(member.heads, 0.1, member.outputs + shift * random.normal(size=(40, 1)), np.ones(40))
        for member in tried
    ]
    plain, shifted = (values(Curve(tuple(members), labels=True).distances()) for members in (tried, moved))
    np.testing.assert_allclose(shifted, plain, rtol=1e-6)


def test_intervals_hold_the_value_and_narrow_with_more_samples():
    point = sweep(3).errors()[0]
    assert point.low < point.value < point.high
    few = Curve(
        tuple(
            Tried(member.heads, member.validation_error, member.outputs[:100], member.costs[:100])
            for member in sweep(3).tried
        ),
        labels=False,
    )
    assert few.errors()[0].high - few.errors()[0].low > 2 * (point.high - point.low)
