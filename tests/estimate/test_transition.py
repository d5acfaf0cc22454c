import json
import math

import pandas as pd
import pytest
from believable import believable_frame, diverge, in_cell
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.estimate import sections, transitions


def frame_of(
    errors: dict[int, float], *, dimension: int | None = 2, lengths: tuple[int, ...] = (8, 16)
) -> pd.DataFrame:
    """One member per heads and length, with exactly these errors."""
    frame = believable_frame(
        dimension=dimension, heads=tuple(errors), lengths=lengths, seeds=1, learning_rates=(1e-3,)
    )
    exact = frame["heads"].map(errors).astype(float)
    return frame.assign(validation_error=exact, test_error=exact, status="done")


def test_the_sentence_is_computed():
    (found,) = transitions(frame_of({1: 3e-2, 2: 1e-4, 3: 9e-5}))
    assert (found.below, found.heads) == (1, 2)
    assert found.fall == pytest.approx(300)
    assert str(found) == "max_sum: the error falls 300-fold at 2 heads: D = 2, as it was built."


def test_a_fall_elsewhere_is_said_plainly():
    (found,) = transitions(frame_of({1: 3e-2, 2: 2e-2, 3: 2e-5}))
    assert str(found) == "max_sum: the error falls 1,000-fold at 3 heads: D = 3, but it was built with D = 2."


def test_a_gap_in_the_head_counts_leaves_a_range():
    (found,) = transitions(frame_of({1: 1e-1, 4: 1e-4}, dimension=3))
    assert "between 1 and 4 heads: 1 < D ≤ 4, as it was built" in str(found)


def test_a_small_fall_is_no_transition():
    (found,) = transitions(frame_of({1: 3e-2, 2: 1e-2}, dimension=None))
    assert not found.clear
    assert str(found) == "max_sum: no transition; the largest fall of the error is 3.0-fold, at 2 heads."


@pytest.mark.parametrize("errors", [{2: 1e-3}, {1: math.nan, 2: 1e-3}])
def test_one_usable_head_count_has_no_transition(errors):
    assert transitions(frame_of(errors)) == []


def test_an_error_of_zero_is_a_finite_fall():
    (found,) = transitions(frame_of({1: 1e-2, 2: 0.0}))
    assert math.isfinite(found.fall)
    assert found.heads == 2


def test_a_diverged_member_is_not_chosen():
    frame = frame_of({1: 1e-1, 2: 1e-4, 3: 1e-4}, lengths=(8,))
    spoilt = diverge(frame, in_cell(frame, heads=2, length=8))
    (found,) = transitions(spoilt)
    assert (found.below, found.heads) == (1, 3)


@settings(max_examples=30, deadline=None)
@given(
    falls=st.lists(st.floats(0.5, 100), min_size=1, max_size=6),
    shuffle=st.randoms(use_true_random=False),
)
def test_the_largest_fall_is_found_whatever_the_order_of_rows(falls, shuffle):
    errors = {1: 1.0}
    for heads, fall in enumerate(falls, start=2):
        errors[heads] = errors[heads - 1] / fall
    frame = frame_of(errors)
    rows = list(range(len(frame)))
    shuffle.shuffle(rows)
    (found,) = transitions(frame.iloc[rows])
    assert found.fall == pytest.approx(max(falls))


def test_settings_that_vary_make_sections_of_their_own():
    def with_hidden(hidden: int) -> pd.DataFrame:
        frame = frame_of({1: 1e-1, 2: 1e-4})
        specs = [
            json.dumps(
                {"architecture": {"hidden": hidden, "heads": int(heads), "head_dim": 32 // int(heads)}}
            )
            for heads in frame["heads"]
        ]
        return frame.assign(spec=specs, trial=frame["trial"] + str(hidden))

    frame = pd.concat([with_hidden(16), with_hidden(32)], ignore_index=True)
    assert [section.settings for section in sections(frame)] == ["hidden 16", "hidden 32"]
    assert [section.settings for section in sections(with_hidden(16))] == [""]
    assert [found.task for found in transitions(frame)] == ["max_sum (hidden 16)", "max_sum (hidden 32)"]
