"""Which curve decides: said where error and distance disagree, and only there."""

from dataclasses import replace

import pytest
from believable_curves import SAMPLES, curve_of, sweep

from headcount.estimate.deciding import which_decides
from headcount.estimate.verdict import decide, unsure


def with_costs(curve, change):
    """The same members; `change` adds to the costs of each."""
    return decide(curve_of(replace(m, costs=m.costs + change(m.heads)) for m in curve.tried))


def a_few(heads):
    """A hundredth of the samples that D = 3 heads are far off at."""
    return [2.0 * (heads == 3)] * (SAMPLES // 100) + [0.0] * (SAMPLES - SAMPLES // 100)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_nothing_is_said_where_both_curves_show_the_same(dimension):
    assert which_decides(decide(sweep(dimension, sharpness=0.1))) == ""


def test_the_furthest_samples_explain_an_error_that_falls_on():
    found = with_costs(sweep(3), a_few)
    said = which_decides(found)
    assert found.dimension == 3 and "from 3 to" in said and "only at the 2% of the test sequences" in said
    errors, typical = ({p.heads: p.value for p in points} for points in (found.errors, found.typical_errors))
    assert errors[3] > 10 * errors[4] and typical[3] < 1.5 * typical[4]


def test_noise_explains_an_error_that_hardly_falls():
    found = decide(sweep(4, noise=0.8))
    said = which_decides(found)
    assert found.dimension == 4 and "noise in y, or too few samples, keep every error at" in said
    assert "from 3 to 4 heads" in said


@pytest.mark.parametrize(
    ("extra", "why"), [(5e-4, "less than a thousandth of the variance"), (0.02, "the distance does not")]
)
def test_a_small_and_a_plain_difference_are_told_apart(extra, why):
    found = with_costs(sweep(3, sharpness=3e-3), lambda heads: extra * (heads <= 3))
    found = replace(found, distances=tuple(replace(point, value=1e-5) for point in found.distances))
    assert why in which_decides(found)


def test_a_difference_within_the_intervals_may_be_chance():
    found = with_costs(sweep(3), lambda heads: 0.02 * (heads <= 3))
    wide = tuple(replace(point, low=1e-5, high=1.0) for point in found.errors)
    assert "within the 95% intervals" in which_decides(replace(found, errors=wide))


def test_an_answer_without_d_has_no_deciding_curve():
    found = with_costs(sweep(3), a_few)
    lost = unsure(replace(found, deciding=which_decides(found)), "no.")
    assert lost.deciding == "" and which_decides(lost) == ""
