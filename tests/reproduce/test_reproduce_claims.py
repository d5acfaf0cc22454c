"""Summaries and verdicts on small frames with known answers."""

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from reproduce.invented import invented_frame
from tiny import tiny_grid

from headcount.reproduce.claims import falls, grows_with_length, no_worse, slope_interval, summarise, within


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


def test_polished_members_stand_beside_and_not_among_the_others() -> None:
    (trial,) = tiny_grid(heads=(1,), length=(8,)).trials()
    better = replace(trial, training=replace(trial.training, polish_steps=5))
    frame = pd.concat([invented_frame([trial], lambda _: 0.5), invented_frame([better], lambda _: 0.1)])
    (row,) = summarise(frame).to_dict(orient="records")
    assert (row["min"], row["members"], row["polished_test"]) == (0.5, 1, 0.1)
    (row,) = summarise(frame, paper={(1, 8): 0.2}).to_dict(orient="records")
    assert row["ratio"] == pytest.approx(0.5)


def test_falls_at_every_length_or_not() -> None:
    errors = {(1, 8): 1.0, (2, 8): 1e-3, (1, 16): 1.0, (2, 16): 1e-1}
    table = summarise(frame_of({cell: [(error, error)] for cell, error in errors.items()}))
    assert falls(table, below=1, at=2, factor=10).holds
    assert falls(table, below=1, at=2, factor=100).holds is False
    assert falls(table, below=2, at=3, factor=10).holds is None


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


@pytest.mark.parametrize(("slope", "holds"), [(0.5, True), (-0.5, False), (0.0, None)])
def test_growth_with_length_is_judged_by_its_interval(slope: float, holds: bool | None) -> None:
    random = np.random.default_rng(0)
    errors = {
        (1, length): [(error, error) for error in (length / 8) ** slope * random.lognormal(0, 0.05, 6)]
        for length in (8, 16, 32, 64)
    }
    (verdict,) = grows_with_length(frame_of(errors), below=2)
    assert verdict.holds is holds


def test_the_interval_covers_the_slope_as_often_as_it_says() -> None:
    """Minima of resampled seeds lie a little high, so an interval of 95% covers somewhat less often."""
    random, x = np.random.default_rng(1), np.array([8.0, 16.0, 32.0, 64.0])
    drawn = [[value**0.3 * random.lognormal(0, 0.2, 8) for value in x] for _ in range(60)]
    intervals = [slope_interval(x, groups, seed=seed) for seed, groups in enumerate(drawn)]
    assert sum(low <= 0.3 <= high for _, low, high in intervals) >= 45
