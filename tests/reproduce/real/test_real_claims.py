"""Claims on real data, over heads and lengths: they hold for errors made to fit, and not for others."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.reproduce.real.claims import (
    faded,
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
    random = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "heads": heads,
                "length": length,
                "width": 16 * heads,
                "variant": variant,
                "train_error": error(heads, length) * random.uniform(0.99, 1.01),
            }
            for heads in HEADS
            for length in LENGTHS
            for _ in range(seeds)
        ]
    )


LAW = Law(-1.4, 0.43, 0.49 / 3, 0.25, 0)
LIKE_THE_PAPER = grid(LAW.error)
CELLS = {(heads, length): float(LAW.error(heads, length)) for heads in HEADS for length in LENGTHS}


def test_what_matters_and_where_the_positive_ranks():
    frame = pd.DataFrame(
        {
            "heads": [1, 2, 1, 2],
            "length": [8, 8, 16, 16],
            "scores": [
                json.dumps({"tokens_that_matter": matter, "validation_mrr": rank})
                for matter, rank in ((3, 0.5), (4, 0.7), (3, 0.4), (2, 0.3))
            ],
        }
    )
    few = tokens_that_matter(frame)
    assert few.holds is False and few.evidence.startswith("T = 8: 3 with h = 1, 4 with h = 2, T = 16: 3")
    (ranked,) = reciprocal_rank(frame)
    assert ranked.holds is False
    assert ranked.evidence.startswith("T = 8: 0.50 with h = 1, at best 0.70 with h = 2")
    assert not list(reciprocal_rank(frame.assign(scores="{}")))


def test_errors_like_the_papers_are_recognised():
    frame = LIKE_THE_PAPER
    assert rises_with_heads(frame).holds
    assert falls_with_length(frame).holds
    law = follows_the_law(frame, CELLS)
    assert law.holds and law.evidence.startswith("a = -1.4 ")
    fades = where_length_fades(frame, CELLS)
    assert fades.holds and fades.evidence.endswith("by the paper's numbers for h ≥ 8")


def test_errors_of_another_shape_are_not():
    rising = grid(lambda heads, length: 0.01 * heads)
    assert rises_with_heads(rising).holds is False
    assert falls_with_length(rising).holds is None
    assert falls_with_length(grid(lambda heads, length: 0.1 / length)).holds is False
    apart = grid(lambda heads, length: 0.1 + 0.004 * length)
    assert where_length_fades(apart, {}).holds is False
    assert "never below" in where_length_fades(apart, {}).evidence
    assert follows_the_law(grid(lambda heads, length: 0.5 if heads % 3 == 1 else 0.01), CELLS).holds is False


def test_the_law_needs_the_papers_exponent_and_more_than_heads():
    twice = grid(lambda heads, length: Law(-2.8, 0.43, 0.9, 0.25, 0).error(heads, length))
    assert follows_the_law(twice, CELLS).holds is False
    by_heads = {cell: 0.3 * np.exp(-0.3 * cell[0]) for cell in CELLS}
    assert follows_the_law(grid(lambda *cell: by_heads[cell]), CELLS).holds is False
    assert follows_the_law(LIKE_THE_PAPER, {}).holds is None, "nothing to hold it against"


def test_where_all_is_learnt_nothing_rises_and_nothing_fades():
    learnt = grid(lambda heads, length: 1e-5 * length / heads)
    (alone,) = shape_of(learnt, CELLS)
    assert alone.holds is False and alone.evidence == "at most 0.06% is wrong in any of 12 cells"
    assert len(shape_of(LIKE_THE_PAPER, CELLS)) == 5
    assert rises_with_heads(learnt).holds is None
    assert where_length_fades(learnt, CELLS).holds is None
    assert where_length_fades(learnt, CELLS).evidence.endswith("no gap beyond noise at any h")


@pytest.mark.parametrize(
    ("error", "holds", "words"),
    [
        (lambda heads, length: 0.3 / heads, True, "width 128: "),
        (lambda heads, length: 0.3, False, "level within noise"),
        (lambda heads, length: 0.03 * heads, False, "width 128: "),
        (lambda heads, length: 1e-5, None, "nothing left to learn"),
    ],
)
def test_a_control_is_judged_at_each_length_by_what_was_trained_there(error, holds, words):
    control = grid(error, variant="control")
    control["train_error"] *= 1 + 0.02 * (control.index % 3 - 1)  # more noise than the grid has
    control = control.query("length != 64 or heads < 8").assign(width=128)
    control["validation_error"] = 0.7
    verdict, validation, _ = follows(control, grid=GRID, narrow="control", width_fixed="a", heads_fixed="b")
    assert validation.holds is False and "level within noise" in validation.evidence
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


def test_too_little_was_trained_to_decide():
    one_length = LIKE_THE_PAPER[LIKE_THE_PAPER["length"] == 8]
    assert falls_with_length(one_length).holds is None
    assert where_length_fades(one_length, CELLS).holds is None
    assert follows_the_law(one_length, CELLS).holds is None
    assert rises_with_heads(LIKE_THE_PAPER[LIKE_THE_PAPER["heads"] == 1]).holds is None
    (parted,) = follows(LIKE_THE_PAPER, grid=GRID, narrow="n", width_fixed="a", heads_fixed="b")
    assert parted.holds is None


def test_the_reversal_score_is_shown_for_both():
    cells = {
        (heads, length): 0.1 + (0.01 if heads < 4 else -0.001) * length
        for heads in HEADS
        for length in (8, 16)
    }
    found = reversal(LIKE_THE_PAPER, {**cells, (1, 4096): 0.0})
    assert found.holds is False
    shown = "at no trained h; by the paper's numbers at these T at h = 4"
    assert found.evidence == shown, "a length that was not trained does not count"
    assert reversal(grid(lambda heads, length: cells.get((heads, length), 0.01)), cells).holds
    assert reversal(LIKE_THE_PAPER, {}).evidence == "at no trained h", "nothing to set beside it"


@given(
    a=st.floats(-3, -0.3),
    b=st.floats(-0.5, 1),
    c=st.floats(0.05, 1),
    delta=st.floats(0.05, 0.9),
)
def test_a_law_is_found_again_from_its_own_errors(a, b, c, delta):
    heads, length = (axis.ravel() for axis in np.meshgrid([2.0, 4, 6, 8], [8.0, 16, 32, 64]))
    law = Law(a, b, c, delta, 0.0)
    found = fit_law(heads, length, law.error(heads, length))
    assert found.unexplained < 1e-6
    np.testing.assert_allclose(found.error(heads, length), law.error(heads, length), rtol=1e-2)
    given_delta = fit_law(heads, length, law.error(heads, length), delta=delta)
    np.testing.assert_allclose([given_delta.a, given_delta.b], [a, b], atol=1e-6)


def test_intervals_of_the_law_hold_what_made_the_errors():
    """Nineteen times of twenty, as promised: of 200 draws no fewer than 180."""
    heads, length = (axis.ravel() for axis in np.meshgrid([2.0, 4, 6, 8], [8.0, 16, 32, 64]))
    random = np.random.default_rng(1)
    law, held = Law(-1.4, 0.4, 0.5, 0.25, 0.0), []
    for _ in range(200):
        wrong = law.error(heads, length) * np.exp(0.1 * random.normal(size=16))
        ends = law_intervals(heads, length, wrong, delta=0.25)
        low, high = delta_interval(heads, length, wrong)
        held.append(
            [ends[name][0] < getattr(law, name) < ends[name][1] for name in "abc"] + [low < 0.25 < high]
        )
    assert (np.sum(held, axis=0) >= 180).all() and (np.mean(held, axis=0) < 1).all()


@pytest.mark.parametrize(
    ("gaps", "where"),
    [((0.5, 0.2, 0.0), 4), ((0.5, 0.04, 0.0), 2), ((0.5, 0.4, 0.3), None), ((0, 0, 0), 1), ((-1, -2, -1), 1)],
)
def test_where_a_gap_fades(gaps, where):
    assert faded([1, 2, 4], np.array(gaps)) == where


def test_where_it_fades_has_an_interval_of_trained_head_counts():
    falling = grid(lambda heads, length: 0.01 * length / heads**4)
    assert "for h ≥ 2 (95% interval over seeds and trained head counts: between h = 1 and 2)" in (
        where_length_fades(falling, {}).evidence
    )
    wild = grid(lambda heads, length: 0.1)
    wild["train_error"] += np.where(wild["length"] == 64, 0.1 * np.random.default_rng(0).random(len(wild)), 0)
    assert where_length_fades(wild, {}).holds in (None, False)


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
    variants = {(1, 16): GRID, (4, 64): GRID, (4, 16): "heads fixed", (1, 64): "width fixed"}
    rows = [(h, E, 8, wrong[h, E], variant) for (h, E), variant in variants.items()]
    frame = pd.DataFrame(rows, columns=["heads", "width", "length", "train_error", "variant"])
    frame["validation_error"] = 0.5
    *_, parted = follows(
        frame, grid=GRID, narrow="narrow", width_fixed="width fixed", heads_fixed="heads fixed"
    )
    assert parted.holds is holds and "from h = 1, E = 16 to h = 4, E = 64" in parted.evidence
