import math

import numpy as np
import pandas as pd
import pytest
from believable import believable_frame, diverge
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import tiny_grid

from headcount.results.cells import sections
from headcount.results.transitions import transitions


def frame_of(errors: dict[int, float], *, dimension: int | None = 2) -> pd.DataFrame:
    """One member per heads and length, with exactly these errors."""
    heads, rates = tuple(errors), (1e-3,)
    frame = believable_frame(dimension=dimension, heads=heads, lengths=(8, 16), seeds=1, learning_rates=rates)
    exact = frame["heads"].map(errors).astype(float)
    return frame.assign(validation_error=exact, test_error=exact, status="done")


@pytest.mark.parametrize(
    ("errors", "dimension", "sentence"),
    [
        ({1: 3e-2, 2: 1e-4, 3: 9e-5}, 2, "the error falls 300-fold at 2 heads: D = 2, as it was built."),
        (
            {1: 3e-2, 2: 2e-2, 3: 2e-5},
            2,
            "the error falls 1,000-fold at 3 heads: D = 3, but it was built with D = 2.",
        ),
        (
            {1: 1e-1, 4: 1e-4},
            3,
            "the error falls 1,000-fold between 1 and 4 heads: 1 < D ≤ 4, as it was built.",
        ),
        ({1: 3e-2, 2: 1e-4}, None, "the error falls 300-fold at 2 heads: D = 2."),
        (
            {1: 3e-2, 2: 1e-2},
            None,
            "no transition; the largest fall of the error is 3.0-fold, at 2 heads.",
        ),
    ],
)
def test_the_sentence_says_where_the_error_falls(errors, dimension, sentence):
    (found,) = transitions(frame_of(errors, dimension=dimension))
    assert str(found) == f"max_sum: {sentence}"


@pytest.mark.parametrize("errors", [{2: 1e-3}, {1: math.nan, 2: 1e-3}])
def test_one_usable_head_count_has_no_transition(errors):
    assert transitions(frame_of(errors)) == []


def test_an_error_of_zero_is_a_finite_fall():
    (found,) = transitions(frame_of({1: 1e-2, 2: 0.0}))
    assert math.isfinite(found.fall) and found.heads == 2


def test_a_diverged_member_is_not_chosen():
    frame = frame_of({1: 1e-1, 2: 1e-4, 3: 1e-4})
    (found,) = transitions(diverge(frame, frame["heads"] == 2))
    assert (found.below, found.heads) == (1, 3)


@settings(max_examples=30)
@given(st.lists(st.floats(0.5, 100), min_size=1, max_size=6), st.integers(0, 99))
def test_the_largest_fall_is_found_whatever_the_order_of_rows(falls, seed):
    errors = dict(enumerate(1 / np.cumprod([1.0, *falls]), start=1))
    (found,) = transitions(frame_of(errors).sample(frac=1, random_state=seed))
    assert found.fall == pytest.approx(max(falls))


def with_specs(**axes: object) -> pd.DataFrame:
    """Heads 1 and 2 for every combination of the axes, as the engine would write their specs."""
    options = {"token_dim": 3, **axes.pop("options", {})}  # type: ignore[dict-item]
    frame = frame_of({1: 1e-1, 2: 1e-4}).set_index(["heads", "length"], drop=False)
    rows = []
    for trial in tiny_grid(heads=(1, 2), length=(8, 16), options=options, **axes).trials():
        shape = trial.architecture
        own = {"trial": trial.id, "head_dim": shape.head_dim, "spec": trial.to_json()}
        rows.append({**frame.loc[(shape.heads, trial.length)], **own})
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
