"""From curves to a dimension: what must hold for any curve, and what is reported."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_curve import sweep

from headcount.estimate.curve import Curve, Point, Tried
from headcount.estimate.dimension_law import EARLY, FINAL, DimensionLaw
from headcount.estimate.verdict import CONFIDENCE, _interval, adjust_for_pooling, decide

levels = st.lists(st.floats(1e-7, 1.5), min_size=3, max_size=10)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_clean_curve_gives_its_dimension(dimension, noise):
    found = decide(sweep(dimension, noise=noise))
    assert found.dimension == dimension
    assert found.interval == (dimension, dimension)
    assert found.verdict == ("one head is enough" if dimension == 1 else "retrieval")
    assert found.recommended_heads == dimension


class Distances:
    """A curve as the law sees it."""

    def __init__(self, levels, *, labels=False, spread=None):
        self.levels, self.labels = np.array(levels), labels
        self.heads = list(range(1, len(levels) + 1))
        self.reference_spread = spread or (float(np.log(self.levels[-3:]).mean()), 0.3)

    def distances(self):
        return [
            Point(heads, level, level, level) for heads, level in zip(self.heads, self.levels, strict=True)
        ]


@settings(max_examples=60, deadline=None)
@given(distances=levels, law=st.sampled_from([EARLY, FINAL]), labels=st.booleans())
def test_chances_are_a_distribution_and_the_interval_holds_enough_of_it(distances, law, labels):
    chances = law.probabilities(Distances(distances, labels=labels))
    assert sum(chances.values()) == pytest.approx(1)
    assert not any(np.signbit(chance) for chance in chances.values()), "-0% would be printed"
    low, high = _interval(chances)
    assert sum(chances[count] for count in range(low, high + 1)) >= CONFIDENCE - 1e-6
    if high > low:  # and is the shortest that does
        assert sum(chances[count] for count in range(low + 1, high + 1)) < CONFIDENCE
        assert sum(chances[count] for count in range(low, high)) < CONFIDENCE


@settings(max_examples=60, deadline=None)
@given(distances=levels, place=st.integers(1, 9), factor=st.floats(1.01, 100))
def test_a_head_count_that_does_worse_makes_a_larger_dimension_likelier(distances, place, factor):
    """All but the first: what is left is measured by that."""
    place = 1 + place % (len(distances) - 2)
    worse = np.array(distances)
    worse[place] *= factor
    spread = (-5.0, 0.3)
    before, after = (FINAL.chances(Distances(levels, spread=spread)) for levels in (distances, worse))
    if worse[place] <= worse[0]:  # isotonic regression would raise the first with it
        assert after[place] >= before[place] - 1e-12


def test_distances_that_hardly_matter_do_not_count_however_far_out():
    small = [3e-5, 1e-5, 1e-6, 1e-6, 1e-6]
    assert FINAL.probabilities(Distances(small))[1] > 0.9
    assert FINAL.probabilities(Distances([1000 * level for level in small]))[3] > 0.9


def test_members_that_differ_among_themselves_are_no_measure():
    levels = [0.03, 0.03, 0.02, 0.02, 0.02]
    alike, unlike = (Distances(levels, spread=(np.log(0.02), deviation)) for deviation in (0.1, 1.0))
    assert FINAL.chances(alike)[1] > 0.9 > 0.1 > FINAL.chances(unlike)[1]


def test_an_error_that_falls_to_the_last_is_no_answer():
    """A task of more things than heads were tried: every head brings a little."""
    curve = sweep(6)
    slow = [replace(member, costs=0.1 * 0.8**member.heads + 0 * member.costs) for member in curve.tried]
    found = decide(Curve(tuple(slow), labels=False))
    assert found.verdict == "cannot tell"
    assert found.reasons[1] == "try more heads: max_heads=16." and "--" not in found.sentence


def test_nothing_learnt_is_cannot_tell():
    random = np.random.default_rng(0)
    members = [
        Tried(heads, 1.0, 0.05 * random.normal(size=(2000, 1)), random.exponential(size=2000))
        for heads in range(1, 9)
    ]
    found = decide(Curve(tuple(members), labels=False))
    assert found.dimension is None and found.interval is None and found.recommended_heads is None
    assert found.verdict == "cannot tell"
    assert "no model learnt anything" in found.sentence


def test_members_that_diverged_are_left_out():
    curve = sweep(3)
    lost = [
        replace(member, validation_error=np.nan, outputs=member.outputs * np.nan) for member in curve.tried
    ]
    halved = Curve(tuple(lost[::2] + list(curve.tried[1::2])), labels=False)
    assert decide(halved).dimension == 3
    found = decide(Curve(tuple(lost), labels=False))
    assert found.verdict == "cannot tell" and "diverging" in found.sentence
    json.dumps(found.to_json(), allow_nan=False)


def test_a_curve_that_falls_slowly_and_for_ever_is_cannot_tell():
    class Unsure(DimensionLaw):
        def chances(self, curve):
            return np.linspace(0.9, 0.1, len(curve.heads) - 1)

    found = decide(sweep(3), law=Unsure(0, 0, 0, 0))
    assert found.verdict == "cannot tell" and found.dimension is None
    assert found.interval is not None and found.interval[1] - found.interval[0] >= 4


def test_heads_are_recommended_that_come_near_the_lowest_error():
    curve = sweep(2)
    worse = tuple(
        Tried(
            member.heads, member.validation_error, member.outputs, member.costs + 0.02 * (member.heads == 2)
        )
        for member in curve.tried
    )
    found = decide(Curve(worse, labels=False))
    assert found.dimension == 2 and found.recommended_heads == 3


def test_where_one_head_is_enough_one_is_recommended():
    curve = sweep(1)
    worse = [replace(member, costs=member.costs + 0.02 * (member.heads == 1)) for member in curve.tried]
    assert decide(Curve(tuple(worse), labels=False)).recommended_heads == 1


def test_the_json_has_what_was_promised():
    found = decide(sweep(3)).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert set(found) == {
        *("dimension", "interval", "verdict", "recommended_heads", "evidence"),
        *("curve", "reasons", "seconds", "version"),
        *("sentence", "machine"),
    }
    assert [point["heads"] for point in found["curve"]] == list(range(1, 9))
    assert all(point["interval"][0] <= point["error"] <= point["interval"][1] for point in found["curve"])


@pytest.mark.parametrize("dimension", [1, 3])
def test_the_sentence_says_what_to_do(dimension):
    sentence = decide(sweep(dimension)).sentence
    assert ("One head is enough" in sentence) == (dimension == 1)
    assert dimension == 1 or "give it 3 heads" in sentence


def test_a_target_that_moves_with_every_token_needs_one_head():
    found = decide(sweep(3))
    assert adjust_for_pooling(found, 0.3, count=10) is found
    # A sequence of four tokens, three of which are retrieved.
    assert adjust_for_pooling(found, 1.0, count=4) is found
    seen = adjust_for_pooling(found, 0.9, count=14)
    assert (seen.dimension, seen.interval, seen.verdict) == (1, (1, 1), "one head is enough")
    assert seen.recommended_heads == 1 and "pools" in seen.sentence
    assert seen.probabilities[1] == 1 and sum(seen.probabilities.values()) == 1
    alone = decide(sweep(1))
    assert adjust_for_pooling(alone, 1.0, count=16) is alone


@pytest.mark.parametrize("heads", [(1, 2, 3), range(1, 9)])
def test_a_fall_at_the_max_heads_tried_is_no_answer(heads):
    found = decide(sweep(max(heads), heads=heads))
    assert found.dimension is None and found.verdict == "cannot tell"
    assert f"max_heads={2 * max(heads)}" in found.reasons[1]


def test_no_more_heads_are_advised_than_can_be_tried():
    assert len(decide(sweep(32, heads=(30, 31, 32))).reasons) == 1


def test_members_that_put_out_a_constant_can_be_written_down():
    flat = [Tried(heads, 1.0, np.zeros((500, 1)), np.ones(500)) for heads in range(1, 5)]
    found = decide(Curve(tuple(flat), labels=False)).to_json()
    assert json.loads(json.dumps(found, allow_nan=False))["verdict"] == "cannot tell"
