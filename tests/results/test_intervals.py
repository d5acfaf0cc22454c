"""Intervals cover as often as they say: by simulation, and beside a plain reference."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from scipy.stats import linregress, ttest_1samp, ttest_ind

from headcount.results.intervals import contrast, difference, regression, significant, slope

DRAWS, COVERED, ALARMS = 400, 0.92, 0.07
NOISE = {
    "normal": lambda random, shape: random.normal(size=shape),
    "skewed": lambda random, shape: random.lognormal(0, 1, size=shape) - np.exp(0.5),
    "failing seed": lambda random, shape: (
        0.4 * random.normal(size=shape) + 5 * ((random.random(shape) < 1 / 8) - 1 / 8)
    ),
}
