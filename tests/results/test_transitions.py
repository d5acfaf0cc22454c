import math

import pandas as pd
import pytest
from believable import believable_frame, diverge, in_cell
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_grid

from headcount.results.cells import sections
from headcount.results.transitions import transitions


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


def with_specs(**axes: object) -> pd.DataFrame:
    """Heads 1 and 2 for every combination of the axes, as the engine would write their specs."""
    options = {"token_dim": 3, **axes.pop("options", {})}  # type: ignore[dict-item]
    trials = tiny_grid(heads=(1, 2), length=(8, 16), options=options, **axes).trials()
    frame = frame_of({1: 1e-1, 2: 1e-4})
    rows = []
    for trial in trials:
        matching = frame[(frame["heads"] == trial.architecture.heads) & (frame["length"] == trial.length)]
        rows.append(
            matching.iloc[0].to_dict()
            | {"trial": trial.id, "head_dim": trial.architecture.head_dim, "spec": trial.to_json()}
        )
    return pd.DataFrame(rows)


def apart(*frames: pd.DataFrame) -> set[str]:
    return {section.settings for section in sections(pd.concat(frames, ignore_index=True))}


def test_settings_that_vary_make_sections_of_their_own():
    both = with_specs(hidden=(4, 5))
    assert {found.task for found in transitions(both)} == {
        "max_sum (encoder_hidden [4], readout_hidden [4])",
        "max_sum (encoder_hidden [5], readout_hidden [5])",
    }
    assert apart(with_specs()) == {""}


def test_seeds_and_rates_share_a_section_but_seeds_of_the_task_do_not():
    assert apart(with_specs(seed=(0, 1), learning_rate=(1e-3, 1e-2), data_seed=3)) == {""}
    seeds = [with_specs(options={"seed": seed}) for seed in (0, 1)]
    assert apart(*seeds) == {"task seed 0", "task seed 1"}


def test_head_sizes_that_follow_from_the_heads_set_nothing_apart():
    assert apart(with_specs(width=8)) == {""}
    assert apart(with_specs(width=8), with_specs(width=16)) == {"width 8", "width 16"}
    assert apart(with_specs(head_dim=(3, 4))) == {"head_dim 3", "head_dim 4"}


def test_long_values_are_never_taken_for_one_another():
    vectors = [[[1.0, 0.0, 0.0], [0.0, 1.0, last]] for last in (0.25, 0.5)]
    assert len(apart(*(with_specs(options={"directions": given}) for given in vectors))) == 2
