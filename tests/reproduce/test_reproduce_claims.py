"""Summaries and verdicts on small frames with known answers."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from reproduce.invented import invented_frame
from tiny import tiny_grid

from headcount.reproduce.claims import change_with_length, falls, no_worse, summarise, within


def frame_of(errors: dict[tuple[int, int], list[tuple[float, float]]], rate: float = 1e-2) -> pd.DataFrame:
    """A row per (heads, length) and seed, with its validation and its test error."""
    frames = []
    for (heads, length), seeds in errors.items():
        for seed, (validation, test) in enumerate(seeds):
            grid = tiny_grid(heads=heads, length=length, seed=seed, learning_rate=rate)
            frames.append(invented_frame(grid.trials(), lambda _, error=validation: error, test_error=test))
    return pd.concat(frames, ignore_index=True)


def test_the_rate_is_chosen_on_validation_and_reported_on_test_data() -> None:
    slow = frame_of({(1, 8): [(0.2, 0.01), (0.3, 0.02)]}, rate=1e-3)
    fast = frame_of({(1, 8): [(0.1, 0.5), (0.4, 0.7), (0.5, 0.9)]}, rate=1e-2)
    (row,) = summarise(pd.concat([slow, fast])).to_dict(orient="records")
    assert row["learning_rate"] == 1e-2 and row["seeds"] == 3 and row["members"] == 5
    assert (row["min"], row["median"], row["mean"]) == pytest.approx((0.5, 0.7, 0.7))
    assert row["std"] == pytest.approx(np.std([0.5, 0.7, 0.9], ddof=1))
    assert row["validation"] == 0.1


def test_failed_members_are_counted_and_never_chosen() -> None:
    frame = frame_of({(1, 8): [(1e-9, 1e-9), (0.2, 0.3)]})
    frame.loc[0, "status"] = "diverged"
    (row,) = summarise(frame).to_dict(orient="records")
    assert (row["failed"], row["members"], row["min"]) == (1, 2, 0.3)
    frame["status"] = "diverged"
    (row,) = summarise(frame).to_dict(orient="records")
    assert row["failed"] == 2 and np.isnan(row["min"])


def test_falls_at_every_length_by_every_statistic_or_not() -> None:
    errors = {(1, 8): 1.0, (2, 8): 1e-3, (1, 16): 1.0, (2, 16): 1e-1}
    frame = frame_of({cell: [(error, error)] for cell, error in errors.items()})
    assert falls(frame, below=1, at=2, factor=10).holds
    assert falls(frame, below=1, at=2, factor=100).holds is False
    assert falls(frame, below=2, at=3, factor=10).holds is None
    lucky = frame_of({(1, 8): [(1.0, 1.0)] * 8, (2, 8): [(1e-3, 0.2), *[(0.5, 0.5)] * 6, (0.6, 1e-3)]})
    found = falls(lucky, below=1, at=2, factor=100)
    assert found.holds is False, "one seed of eight is no fall"
    assert found.evidence.endswith("T = 8: 1,000, 2 (2 to 1,000), 5")


def test_no_worse_names_the_cells_beyond_and_within_looks_both_ways() -> None:
    frame = frame_of({(1, 8): [(0.2, 0.4)], (2, 8): [(0.2, 0.1)]})
    judge = partial(no_worse, summarise(frame, paper={(1, 8): 0.2, (2, 8): 0.2}), factor=1, where="somewhere")
    found = judge(heads=lambda h: h >= 1, column="ratio")
    assert found.holds is False and "h = 1, T = 8: 2" in found.evidence and "1 of 2" in found.evidence
    assert judge(heads=lambda h: h >= 1, column="validation_ratio").holds
    assert judge(heads=lambda h: h >= 9, column="ratio").holds is None
    table = summarise(frame_of({(1, 8): [(0.1, 0.1)]}), paper={(1, 8): 1.0})
    for factor in (5, 11):
        assert within(table, heads=lambda h: True, factor=factor, where="").holds is (factor == 11)


@pytest.mark.parametrize(
    ("slope", "few", "enough"), [(0.5, True, False), (-0.5, False, True), (0.0, None, None)]
)
def test_change_with_length_is_judged_by_its_interval(
    slope: float, few: bool | None, enough: bool | None
) -> None:
    random = np.random.default_rng(3)
    errors = {
        (heads, length): [(error, error) for error in (length / 8) ** slope * random.lognormal(0, 0.05, 6)]
        for heads in (1, 2)
        for length in (8, 16, 32, 64)
    }
    below, beyond = change_with_length(frame_of(errors), enough=2)
    assert (below.holds, beyond.holds) == (few, enough)
    assert "grows" in below.claim and "does not grow" in beyond.claim


def test_a_stuck_seed_is_counted_and_can_undo_a_verdict_but_not_make_one() -> None:
    random, lengths = np.random.default_rng(3), (8, 16, 32)
    drawn = {T: np.sqrt(T / 8) * random.lognormal(0, 0.05, 6) for T in lengths}
    grows = {(1, T): [(error, error) for error in drawn[T]] for T in lengths}
    (alone,) = change_with_length(frame_of(grows), enough=2)
    (beside,) = change_with_length(frame_of({**grows, (1, 8): [*grows[1, 8], (150.0, 150.0)]}), enough=2)
    assert alone.holds and "stuck" not in alone.evidence
    assert beside.holds is None and "1 stuck) over T = 8 to 32, 19 members" in beside.evidence
    flat = {(1, T): [(error, error) for error in drawn[8]] for T in lengths}
    stuck = [(150.0, 150.0)] * 4
    (made,) = change_with_length(frame_of({**flat, (1, 32): [*flat[1, 32], *stuck]}), enough=2)
    assert made.holds is None and "4 stuck)" in made.evidence


def test_growth_that_one_lucky_seed_hides_is_seen_over_all_seeds() -> None:
    errors = {
        (1, T): [(error, error) for error in (2.0, *(T**0.5 * np.linspace(1, 1.1, 7)))] for T in (8, 16, 32)
    }
    (verdict,) = change_with_length(frame_of(errors), enough=2)
    assert verdict.holds and "by minima 0.00" in verdict.evidence
