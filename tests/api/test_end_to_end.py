"""The claim itself: `HeadCount` finds the D of tasks whose D is known, with nothing replaced.

The short recipe: 1,000 steps instead of 8,000, on 2,000 sequences of 8 tokens, with up to D + 2 heads. That
is enough for these tasks, which are easy; benchmarks/dimension.py measures how often the full recipe is right
on harder ones.
"""

import numpy as np
import pytest

from headcount import HeadCount

SAMPLES, LENGTH, STEPS = 2_000, 8, 1_000


def maxima(x):
    """The sum of the largest value of each feature: D is the number of features."""
    return x.max(axis=1).sum(axis=1)


def nearest(x):
    """Distances to the nearest token of two corners of the unit cube."""
    return sum(np.sqrt(((x - corner) ** 2).sum(axis=2)).min(axis=1) for corner in (-1.0, 1.0))


TASKS = {
    "two maxima": (2, 2, maxima),
    "three maxima": (3, 3, maxima),
    "one maximum": (1, 2, lambda x: x[:, :, 0].max(axis=1)),
    "the extremes of one feature": (2, 1, lambda x: x.max(axis=1)[:, 0] - x.min(axis=1)[:, 0]),
    "two corners": (2, 2, nearest),
    "four maxima": (4, 4, maxima),
    "two outputs of three maxima": (3, 3, lambda x: x.max(axis=1) @ [[1.0, 1.0], [1.0, -1.0], [1.0, 0.5]]),
    "product of two maxima": (2, 2, lambda x: np.prod(1 + x.max(axis=1) / 4, axis=1)),
}
CONTROLS = {
    "mean pooling": lambda x: x.mean(axis=1) @ [1.0, -0.5],
    "the last token": lambda x: np.tanh(x[:, -1, 0]) + x[:, -1, 1],
    "sum of squares": lambda x: (x**2).sum(axis=(1, 2)),
}
SHORT = ("two maxima", "three maxima", "mean pooling")


def long_unless_short(name):
    return pytest.param(name, marks=() if name in SHORT else pytest.mark.long, id=name)


def fitted(token_dim, target, **options):
    x = np.random.default_rng(0).normal(size=(SAMPLES, LENGTH, token_dim))
    return HeadCount(steps=STEPS, random_state=0, **options).fit(x, target(x))


@pytest.mark.parametrize("name", [*map(long_unless_short, TASKS)])
def test_d_is_found_and_so_many_heads_are_recommended(name):
    dimension, token_dim, target = TASKS[name]
    found = fitted(token_dim, target, max_heads=dimension + 2, positions=False)
    assert found.dimension_ == dimension, found
    low, high = found.interval_
    assert low <= dimension <= min(high, found.recommended_heads_)


@pytest.mark.parametrize("name", [*map(long_unless_short, CONTROLS)])
def test_one_head_is_enough_for_a_target_that_retrieves_one_thing_or_none(name):
    found = fitted(2, CONTROLS[name], max_heads=4, positions=name == "the last token")
    assert (found.dimension_, found.recommended_heads_) == (1, 1), found
    assert found.estimate_.verdict == "one head is enough"
