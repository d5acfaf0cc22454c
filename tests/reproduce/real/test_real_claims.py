"""Claims on real data, over heads and lengths: they hold for errors made to fit, and not for others."""

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.reproduce.real.claims import (
    faded,
    fading_interval,
    falls_with_length,
    reversal,
    rises_with_heads,
    where_length_fades,
)
from headcount.reproduce.real.controls import beside_the_grid, follows, reciprocal_rank, tokens_that_matter
from headcount.reproduce.real.law import Law, delta_interval, fit_law, follows_the_law, law_intervals
from headcount.reproduce.real.variants import GRID
from headcount.reproduce.real.verdicts import shape_of

HEADS, LENGTHS = (1, 2, 4, 8), (8, 16, 64)


def grid(error, *, variant=GRID, seeds=3):
    """Cells of one grid with these errors and a little noise over seeds."""
    cells = [(heads, length) for heads in HEADS for length in LENGTHS for _ in range(seeds)]
    frame = pd.DataFrame(cells, columns=["heads", "length"]).assign(variant=variant)
    frame["seed"] = frame.index % seeds
    noise = np.random.default_rng(0).uniform(0.99, 1.01, size=len(cells))
    return frame.assign(width=16 * frame["heads"], train_error=noise * [error(*cell) for cell in cells])


LAW = Law(-1.4, 0.43, 0.49 / 3, 0.25, 0)
LIKE_THE_PAPER = grid(LAW.error)
CELLS = {(heads, length): float(LAW.error(heads, length)) for heads in HEADS for length in LENGTHS}
LEARNT = grid(lambda heads, length: 1e-5 * length / heads)
CLAIMS = {
    "rises": rises_with_heads,
    "falls": falls_with_length,
    "law": partial(follows_the_law, paper=CELLS),
    "fades": partial(where_length_fades, paper=CELLS),
}
ERRORS = {
    "like the paper's": (LIKE_THE_PAPER, {"rises": True, "falls": True, "law": True, "fades": True}),
    "rising with heads": (grid(lambda heads, length: 0.01 * heads), {"rises": False, "falls": None}),
    "falling with length": (grid(lambda heads, length: 0.1 / length), {"falls": False}),
    "apart at every h": (grid(lambda heads, length: 0.1 + 0.004 * length), {"fades": False}),
    "jumping": (grid(lambda heads, length: 0.5 if heads % 3 == 1 else 0.01), {"law": False}),
    "of twice the exponent": (grid(Law(-2.8, 0.43, 0.9, 0.25, 0).error), {"law": False}),
    "of heads alone": (grid(lambda heads, length: 0.3 * np.exp(-0.3 * heads)), {"law": False}),
    "all learnt": (LEARNT, {"rises": None, "fades": None}),
    "of one length": (LIKE_THE_PAPER.query("length == 8"), {"falls": None, "law": None, "fades": None}),
    "of one head": (LIKE_THE_PAPER.query("heads == 1"), {"rises": None}),
}


@pytest.mark.parametrize(("frame", "holds"), ERRORS.values(), ids=ERRORS)
def test_claims_hold_for_errors_made_to_fit_and_not_for_others(frame, holds):
    assert {claim: CLAIMS[claim](frame).holds for claim in holds} == holds


def test_the_evidence_says_what_decided():
    for claim, errors, words in (
        ("law", "like the paper's", "a = -1.4 "),
        ("fades", "like the paper's", "by the paper's numbers for h ≥ 8"),
        ("fades", "apart at every h", "never below"),
        ("fades", "all learnt", "no gap is significant at any h"),
    ):
        assert words in CLAIMS[claim](ERRORS[errors][0]).evidence
    (alone,) = shape_of(LEARNT, CELLS)
    assert alone.holds is False and alone.evidence == "at most 0.06% is wrong in any of 12 cells"
    assert len(shape_of(LIKE_THE_PAPER, CELLS)) == 5
    assert follows_the_law(LIKE_THE_PAPER, {}).holds is None, "nothing to hold it against"


def test_what_matters_and_where_the_positive_ranks():
    found = {(1, 8): (3, 0.5), (2, 8): (4, 0.7), (1, 16): (3, 0.4), (2, 16): (2, 0.3)}
    noise = (-0.1, 0.0, 0.1)
    scores = [
        json.dumps({"tokens_that_matter": few + more, "validation_mrr": rank + more / 10})
        for few, rank in found.values()
        for more in noise
    ]
    frame = pd.DataFrame([cell for cell in found for _ in noise], columns=["heads", "length"])
    frame = frame.assign(scores=scores)
    few = tokens_that_matter(frame)
    assert few.holds is False and few.evidence.startswith("T = 8: 3 with h = 1, 4 with h = 2, T = 16: 3")
    assert tokens_that_matter(frame.iloc[::3]).holds is None, "one seed decides nothing"
    (ranked,) = reciprocal_rank(frame)
    assert ranked.holds is False
    assert ranked.evidence.startswith("T = 8: 0.50 with h = 1, at best 0.70 with h = 2")
    assert not list(reciprocal_rank(frame.assign(scores="{}")))


@pytest.mark.parametrize(
    ("error", "holds", "words"),
    [
        (lambda heads, length: 0.3 / heads, True, "width 128: "),
        (lambda heads, length: 0.3, None, "no significant difference"),
        (lambda heads, length: 0.1 * heads, False, "width 128: "),
        (lambda heads, length: 1e-5, None, "nothing left to learn"),
    ],
)
def test_a_control_is_judged_at_each_length_by_what_was_trained_there(error, holds, words):
    control = grid(error, variant="control")
    control["train_error"] *= 1 + 0.02 * (control.index % 3 - 1)  # more noise than the grid has
    control = control.query("length != 64 or heads < 8").assign(width=128)
    control["validation_error"] = 0.7
    verdict, validation, _ = follows(control, grid=GRID, narrow="control", width_fixed="a", heads_fixed="b")
    assert validation.holds is None and "no significant difference" in validation.evidence
    assert verdict.holds is holds and words in verdict.evidence
    assert "T = 16, heads 1 to 8" in verdict.evidence and "T = 64, heads 1 to 4" in verdict.evidence


@pytest.mark.parametrize(("moved", "holds"), [(0.004, True), (0.03, False)])
def test_a_cell_trained_in_another_way_stands_beside_that_of_the_grid(moved, holds):
    other = grid(lambda *_: 0.2 + moved, variant="another way").query("heads == length == 8")
    both = pd.concat([grid(lambda *_: 0.2), other])
    both["validation_error"] = both["train_error"]
    (verdict,) = beside_the_grid(both, grid=GRID, others=("another way", "not trained"))
    assert verdict.holds is holds and "h = 8 and T = 8" in verdict.claim
    assert f"train {100 * (1 - other['train_error'].mean()):.1f}%" in verdict.evidence


def test_the_reversal_score_is_shown_for_both():
    cells = {(h, T): 0.1 + (0.01 if h < 4 else -0.001) * T for h in HEADS for T in (8, 16)}
    found = reversal(LIKE_THE_PAPER, {**cells, (1, 4096): 0.0})  # a length that was not trained
    assert found.holds is False
    assert found.evidence == "at no trained h; by the paper's numbers at these T at h = 4"
    assert reversal(grid(lambda heads, length: cells.get((heads, length), 0.01)), cells).holds
    assert reversal(LIKE_THE_PAPER, {}).evidence == "at no trained h", "nothing to set beside it"


AXES = [axis.ravel() for axis in np.meshgrid([2.0, 4, 6, 8], [8.0, 16, 32, 64])]


@given(a=st.floats(-3, -0.3), b=st.floats(-0.5, 1), c=st.floats(0.05, 1), delta=st.floats(0.05, 0.9))
def test_a_law_is_found_again_from_its_own_errors(a, b, c, delta):
    errors = Law(a, b, c, delta, 0.0).error(*AXES)
    found = fit_law(*AXES, errors)
    assert found.unexplained < 1e-6
    np.testing.assert_allclose(found.error(*AXES), errors, rtol=1e-2)
    given_delta = fit_law(*AXES, errors, delta=delta)
    np.testing.assert_allclose([given_delta.a, given_delta.b], [a, b], atol=1e-6)


def test_intervals_of_the_law_hold_what_made_the_errors():
    """Nineteen times of twenty, as promised: of 300 draws no fewer than 276."""
    random = np.random.default_rng(1)
    law, held = Law(-1.4, 0.4, 0.5, 0.25, 0.0), []
    for _ in range(300):
        wrong = law.error(*AXES) * np.exp(0.1 * random.normal(size=16))
        ends = {**law_intervals(*AXES, wrong, delta=0.25), "delta": delta_interval(*AXES, wrong)}
        held.append(
            [ends[name][0] <= getattr(law, name) <= ends[name][1] for name in ("a", "b", "c", "delta")]
        )
    assert (np.sum(held, axis=0) >= 276).all() and (np.mean(held, axis=0) < 1).all()


@pytest.mark.parametrize(
    ("gaps", "where"),
    [((0.5, 0.2, 0.0), 4), ((0.5, 0.04, 0.0), 2), ((0.5, 0.4, 0.3), None), ((0, 0, 0), 1), ((-1, -2, -1), 1)],
)
def test_where_a_gap_fades(gaps, where):
    assert faded([1, 2, 4], np.array(gaps)) == where


def test_where_it_fades_has_an_interval_of_trained_head_counts():
    falling = grid(lambda heads, length: 0.01 * length / heads**4)
    interval = "for h ≥ 2 (95% interval, of trained head counts: h = 2 alone)"
    assert interval in where_length_fades(falling, {}).evidence
    wild = grid(lambda heads, length: 0.1)
    wild["train_error"] += np.where(wild["length"] == 64, 0.1 * np.random.default_rng(0).random(len(wild)), 0)
    assert where_length_fades(wild, {}).holds in (None, False)


@pytest.mark.parametrize("noise", [0.01, 0.05])
@pytest.mark.parametrize("seeds", [2, 3, 8])
def test_where_it_fades_is_covered(noise, seeds):
    """The gap is a tenth of the largest at no trained h: from 4 heads on it is below."""
    random, gaps, held = np.random.default_rng(seeds), {1: 0.4, 2: 0.2, 4: 0.03, 8: 0.0}, []
    for _ in range(300):
        ends = {h: tuple(random.normal((0.1, 0.1 + gap), noise, (seeds, 2)).T) for h, gap in gaps.items()}
        low, high = fading_interval(ends)
        held.append(low <= 4 <= (high or np.inf))
    assert np.mean(held) >= 0.95
    sure = {h: (np.array([0.1, 0.1001]), np.array([0.1, 0.1001]) + gap) for h, gap in gaps.items()}
    assert fading_interval(sure) == (4, 4)


def test_noise_between_seeds_is_no_fall_of_accuracy_and_a_real_fall_is_one():
    noisy = LIKE_THE_PAPER.copy()
    at = (noisy["heads"] == 8) & (noisy["length"] == 8)
    noisy.loc[at, "train_error"] = [0.001, 0.05, 0.001]
    assert rises_with_heads(noisy).holds
    noisy.loc[at, "train_error"] = [0.2, 0.21, 0.2]
    assert rises_with_heads(noisy).holds is False and "to h = 8 at T = 8" in rises_with_heads(noisy).evidence


@pytest.mark.parametrize(("by_heads", "by_width", "holds"), [(0.1, 0.3, True), (0.3, 0.1, False)])
def test_heads_and_width_are_parted_at_four_corners(by_heads, by_width, holds):
    wrong = {(1, 16): 0.5, (4, 16): by_heads, (1, 64): by_width, (4, 64): 0.05}
    corners = {(1, 16): GRID, (4, 64): GRID, (4, 16): "heads fixed", (1, 64): "width fixed"}
    rows = [
        (h, E, 8, wrong[h, E] + more, variant)
        for (h, E), variant in corners.items()
        for more in (-0.01, 0, 0.01)
    ]
    frame = pd.DataFrame(rows, columns=["heads", "width", "length", "train_error", "variant"])
    frame["validation_error"] = 0.5
    variants = {"grid": GRID, "narrow": "narrow", "width_fixed": "width fixed", "heads_fixed": "heads fixed"}
    (untrained,) = follows(LIKE_THE_PAPER, **variants)
    assert untrained.holds is None
    *_, parted = follows(frame, **variants)
    assert parted.holds is holds and "from h = 1, E = 16 to h = 4, E = 64" in parted.evidence
    assert f"width is ahead by {100 * (by_heads - by_width):.1f} points" in parted.evidence
    *_, unsure = follows(
        frame.assign(train_error=frame["train_error"] ** (1 + 9 * (frame.index % 3 == 0))), **variants
    )
    assert unsure.holds is None
