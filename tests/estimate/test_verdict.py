"""From curves to a dimension: what must hold for any curve, and what is reported."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from believable_curves import curve_of, sweep
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.estimate.curve import Point, Tried
from headcount.estimate.verdict import (
    CONFIDENCE,
    EARLY,
    FINAL,
    LARGE_FALL,
    SURE,
    DimensionLaw,
    _interval,
    decide,
    falls_far,
    without_doubtful_retrieval,
)

levels = st.lists(st.floats(1e-7, 1.5), min_size=3, max_size=10)


@pytest.mark.parametrize("dimension", [1, 2, 3, 6])
@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_clean_curve_gives_its_dimension_and_says_what_to_do(dimension, noise):
    found = decide(sweep(dimension, noise=noise))
    assert found.dimension == found.recommended_heads == dimension
    assert found.interval == (dimension, dimension)
    assert found.verdict == ("one head is enough" if dimension == 1 else "retrieval")
    assert ("One head is enough" if dimension == 1 else f"give it {dimension} heads") in found.sentence


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

    def errors(self):
        return self.distances()


@settings(max_examples=60)
@given(distances=levels, law=st.sampled_from([EARLY, FINAL]), labels=st.booleans())
def test_chances_are_a_distribution_and_the_interval_holds_enough_of_it(distances, law, labels):
    chances = law.probabilities(Distances(distances, labels=labels))
    assert sum(chances.values()) == pytest.approx(1)
    assert not any(np.signbit(chance) for chance in chances.values()), "-0% would be printed"
    low, high = _interval(chances)
    assert sum(chances[count] for count in range(low, high + 1)) >= CONFIDENCE - 1e-6
    for shorter in (range(low + 1, high + 1), range(low, high)):
        assert sum(chances[count] for count in shorter) < CONFIDENCE


@settings(max_examples=60)
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


def test_small_distances_count_only_where_they_fall_far():
    small = [3e-5, 1e-5, 1e-6, 1e-6, 1e-6]
    assert FINAL.probabilities(Distances(small))[1] > 0.9
    assert FINAL.probabilities(Distances([1000 * level for level in small]))[3] > 0.9
    assert FINAL.probabilities(Distances([3e-4, 3e-4, 1e-6, 1e-6, 1e-6]))[3] > 0.9
    assert FINAL.probabilities(Distances([6e-4, 4e-4, 5e-4, 3e-4, 2e-4], spread=(-8.5, 0.1)))[1] > 0.9


@settings(max_examples=60)
@given(distances=levels, labels=st.booleans())
def test_a_head_count_after_which_the_curve_falls_far_is_never_enough(distances, labels):
    curve = Distances(distances, labels=labels)
    chances = FINAL.chances(curve)
    for place, heads in enumerate(curve.heads):
        if falls_far(curve.errors(), curve.distances(), heads, labels=labels):
            assert chances[place - 1] >= SURE
            assert min(distances[:place]) >= LARGE_FALL * distances[place]


def test_members_that_differ_among_themselves_are_no_measure():
    levels = [0.03, 0.03, 0.02, 0.02, 0.02]
    alike, unlike = (Distances(levels, spread=(np.log(0.02), deviation)) for deviation in (0.1, 1.0))
    assert FINAL.chances(alike)[1] > 0.9 > 0.1 > FINAL.chances(unlike)[1]


RANDOM = np.random.default_rng(0)
LOST = [
    replace(member, validation_error=np.nan, outputs=member.outputs * np.nan) for member in sweep(3).tried
]
CANNOT_TELL = {
    "more things than heads were tried, every head brings a little": (
        [replace(member, costs=0.1 * 0.8**member.heads + 0 * member.costs) for member in sweep(6).tried],
        "still falls at 8 heads",
    ),
    "nothing is learnt": (
        [
            Tried(h, 1.0, 0.05 * RANDOM.normal(size=(2000, 1)), RANDOM.exponential(size=2000))
            for h in range(1, 9)
        ],
        "no model learnt anything",
    ),
    "outputs are constant": (
        [Tried(heads, 1.0, np.zeros((500, 1)), np.ones(500)) for heads in range(1, 5)],
        "no model learnt anything",
    ),
    "every member diverged": (LOST, "diverging"),
    "three heads tried": (sweep(3, heads=(1, 2, 3)).tried, "still falls at 3 heads"),
    "eight heads tried": (sweep(8).tried, "still falls at 8 heads"),
}


@pytest.mark.parametrize(("members", "why"), CANNOT_TELL.values(), ids=CANNOT_TELL)
def test_a_curve_that_decides_nothing_is_cannot_tell(members, why):
    found = decide(curve_of(members))
    assert (found.verdict, found.dimension, found.recommended_heads) == ("cannot tell", None, None)
    assert why in found.sentence and "--" not in found.sentence
    most = re.search(r"still falls at (\d) heads", found.sentence)
    assert most is None or found.reasons[1] == f"try more heads: max_heads={2 * int(most[1])}."
    json.dumps(found.to_json(), allow_nan=False)


def test_no_more_heads_are_advised_than_can_be_tried():
    assert len(decide(sweep(32, heads=(30, 31, 32))).reasons) == 1


def test_members_that_diverged_are_left_out():
    assert decide(curve_of([*LOST[::2], *sweep(3).tried[1::2]])).dimension == 3


def test_an_interval_that_is_too_wide_decides_nothing():
    class Unsure(DimensionLaw):
        def chances(self, curve):
            return np.linspace(0.9, 0.1, len(curve.heads) - 1)

    found = decide(sweep(3), law=Unsure(0, 0, 0, 0))
    assert found.verdict == "cannot tell" and found.dimension is None
    assert found.interval[1] - found.interval[0] >= 4


@pytest.mark.parametrize(("dimension", "recommended"), [(1, 2), (2, 3)])
def test_more_heads_than_d_are_recommended_where_the_error_is_clearly_lower_and_the_answer_says_why(
    dimension, recommended
):
    worse = [
        replace(member, costs=member.costs + extra, validation_error=member.validation_error + extra)
        for member in sweep(dimension).tried
        for extra in [0.02 * (member.heads == dimension)]
    ]
    found = decide(curve_of(worse))
    assert (found.dimension, found.recommended_heads) == (dimension, recommended)
    assert any(f"with {dimension} and" in reason for reason in found.reasons)
    assert str(recommended) in found.sentence


def test_an_error_that_is_higher_by_chance_or_by_hardly_anything_recommends_no_more_heads():
    random = np.random.default_rng(1)
    noisy = [replace(m, costs=m.costs + random.exponential(0.3, m.costs.shape)) for m in sweep(2).tried]
    small = [replace(m, costs=m.costs + 5e-4 * (m.heads == 2)) for m in sweep(2).tried]
    assert decide(curve_of(noisy)).recommended_heads == decide(curve_of(small)).recommended_heads == 2


@pytest.mark.parametrize(("interval", "word"), [((1, 3), "cannot tell"), ((2, 4), "retrieval")])
def test_an_interval_that_holds_one_never_says_retrieval(interval, word):
    found = without_doubtful_retrieval(replace(decide(sweep(3)), interval=interval))
    assert found.verdict == word
    assert (found.dimension is None) == (found.recommended_heads is None) == (word == "cannot tell")
    assert found.interval == interval


def test_the_json_has_what_was_promised():
    found = decide(sweep(3)).to_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    promised = "dimension interval verdict recommended_heads pools evidence curve reasons seconds version"
    assert set(found) == {*promised.split(), "sentence", "deciding", "budget", "machine", "compile_seconds"}
    assert [point["heads"] for point in found["curve"]] == list(range(1, 9))
    assert all(point["interval"][0] <= point["error"] <= point["interval"][1] for point in found["curve"])
