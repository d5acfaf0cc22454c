"""The way down: where it ends, and how often it promises too much."""

import numpy as np
import pytest

from headcount.trained.descent import Candidate, Step, descend
from headcount.trained.reselection import Reselected, places_again
from headcount.trained.rise import rise_of


def stepper(loss, random, *, samples=400, noise=1.0, bias=0.0):
    """Steps whose rise has a known mean, by number of heads; the samples are the same for every step."""
    shared = random.normal(size=samples) * noise

    def tried(counts):
        rises = loss(counts[0]) + shared * (loss(counts[0]) > 0) * 0.2
        mean = float(rises.mean())
        judged = rise_of(rises)
        kept = (tuple(range(counts[0])),)
        return Candidate(kept, mean + bias, mean, lambda: Step(kept, judged, rises), lambda: judged)

    return tried


def way_of(heads):
    return [(count,) for count in range(heads, 0, -1)]


@pytest.mark.parametrize("bias", [-0.2, 0.0, 0.2])
@pytest.mark.parametrize("heads, needed", [(12, 5), (12, 1), (12, 12), (72, 30), (144, 100)])
def test_it_ends_at_the_fewest_heads_however_good_the_guess(heads, needed, bias):
    tried = stepper(lambda count: max(needed - count, 0) * 0.5, np.random.default_rng(0), bias=bias)
    found = descend(way_of(heads), tried, tolerance=0.25)
    assert found.found.heads == needed
    assert (found.failed is None) == (needed == 1)


def test_it_promises_too_much_in_few_draws():
    broken = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        tried = stepper(lambda count: (12 - count) * 0.01, random, samples=100)
        found = descend(way_of(12), tried, tolerance=0.045)
        broken += (12 - found.found.heads) * 0.01 > 0.045
    assert broken <= 15


def test_a_noisy_loss_is_said_to_be():
    tried = stepper(lambda count: (12 - count) * 0.01, np.random.default_rng(0), samples=5, noise=20)
    assert descend(way_of(12), tried, tolerance=0.05).too_noisy
    clear = stepper(lambda count: (12 - count) * 1.0, np.random.default_rng(0))
    assert not descend(way_of(12), clear, tolerance=0.05).too_noisy


def reselected(places, spread, *, replicates=20, seed=2):
    random = np.random.default_rng(seed)
    shifts = spread * random.normal(size=(replicates, 1)) + np.zeros(len(places))
    return Reselected.of(places, shifts)


def test_the_interval_holds_where_the_way_ends_and_widens_with_other_selections():
    random = np.random.default_rng(1)
    tried = stepper(lambda count: (24 - count) * 0.01, random, samples=300)
    found = descend(way_of(24), tried, tolerance=0.1)
    low, high = places_again(found, reselected((found.place,), 0.0))
    wide_low, wide_high = places_again(found, reselected((found.place,), 0.03))
    assert wide_low <= low <= found.place <= high <= wide_high
    assert wide_high - wide_low > high - low


def test_the_interval_holds_the_end_of_the_way_that_other_draws_of_samples_take():
    """The ends of fresh ways, samples and selection drawn anew, lie in it nineteen times out of twenty."""
    random, ends = np.random.default_rng(3), []
    for _ in range(150):
        shift = 0.012 * random.normal()
        tried = stepper(lambda count: (24 - count) * 0.01 + shift * (count < 24), random, samples=300)  # noqa: B023
        found = descend(way_of(24), tried, tolerance=0.1)
        again = reselected((found.place,), 0.012, seed=int(random.integers(2**31)))
        ends.append((found.place, places_again(found, again)))
    middle = int(np.median([place for place, _ in ends]))
    inside = sum(low <= middle <= high for _, (low, high) in ends)
    assert inside >= 0.9 * len(ends)


def test_a_change_of_the_selection_is_about_its_mean_and_leaves_the_whole_model():
    found = Reselected.of((4,), np.array([[0.5], [1.5]]))
    assert found.at([0, 2, 4, 6]).tolist() == [[0.0, -0.25, -0.5, -0.5], [0.0, 0.25, 0.5, 0.5]]
