"""Rates chosen for a width: which, and that intervals at the chosen rate hold as often as they say."""

import numpy as np
import pandas as pd
import pytest

from headcount.reproduce.real.tuned import at_best_rates, tuned_cells
from headcount.results.intervals import difference

REPEATS, HEADS, SEEDS = 600, 4, 5


def rows(error, *, widths=(16,)):
    """A row for each width, head count, rate and seed."""
    cells = [(w, h, rate, seed) for w in widths for h in (1, 8) for rate in (1e-3, 1e-2) for seed in range(3)]
    frame = pd.DataFrame(cells, columns=["width", "heads", "learning_rate", "seed"])
    errors = [error(row) for row in frame.itertuples()]
    return frame.assign(length=8, status="done", train_error=errors)


def test_a_width_has_the_rate_that_is_best_over_all_its_head_counts():
    frame = rows(
        lambda row: 0.1 if (row.learning_rate == 1e-3) == (row.width == 16) else 0.5, widths=(16, 128)
    )
    chosen = at_best_rates(frame).groupby("width")["learning_rate"].unique()
    assert [list(rates) for rates in chosen] == [[1e-3], [1e-2]]
    assert {place: list(cell) for place, cell in tuned_cells(frame, "width", "heads").items()} == {
        (width, heads): [0.1] * 3 for width in (16, 128) for heads in (1, 8)
    }


def test_a_member_that_diverged_counts_as_all_wrong():
    frame = rows(lambda row: 0.1 if row.learning_rate == 1e-2 else 0.5)
    frame.loc[(frame["learning_rate"] == 1e-2) & (frame["seed"] > 0), "status"] = "diverged"
    assert set(at_best_rates(frame)["learning_rate"]) == {1e-3}
    lost = frame.assign(status="diverged", train_error=np.nan)
    assert {tuple(cell) for cell in tuned_cells(lost, "heads").values()} == {(1.0, 1.0, 1.0)}


def drawn(random, means, skewed):
    """Errors of head counts, seeds and rates around the means of the rates."""
    noise = random.normal(size=(HEADS, SEEDS, len(means)))
    return means + (np.exp(0.7 * noise) - np.exp(0.245) if skewed else noise)


@pytest.mark.parametrize("skewed", [False, True])
@pytest.mark.parametrize(
    ("one", "other"), [((0, 0, 0), (0, 0, 0)), ((0, 0.3, 0.6), (0, 6, 9)), ((0, 0, 0), (0, 6, 9))]
)
def test_intervals_at_a_chosen_rate_cover_as_often_as_they_say(one, other, skewed):
    random, held = np.random.default_rng(0), 0
    for _ in range(REPEATS):
        groups, truth = [], []
        for means in map(np.array, (one, other)):
            errors = drawn(random, means, skewed)
            rate = errors.mean(axis=(0, 1)).argmin()
            groups.append(errors[0, :, rate])
            truth.append(means[rate])
        low, high = difference(*groups).interval
        held += low <= truth[0] - truth[1] <= high
    assert held / REPEATS >= 0.92
