"""The way down: where it ends, and how often it promises too much."""

import numpy as np
import pytest

from headcount.trained.descent import Candidate, Step, descend
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


def test_the_interval_holds_where_the_way_ends_and_widens_with_the_spread():
    random = np.random.default_rng(1)
    tried = stepper(lambda count: (24 - count) * 0.01, random, samples=300)
    found = descend(way_of(24), tried, tolerance=0.1)
    low, high = found.places_within(0.0)
    wide_low, wide_high = found.places_within(0.03)
    assert wide_low <= low <= 10 <= high <= wide_high
    assert wide_high - wide_low > high - low
