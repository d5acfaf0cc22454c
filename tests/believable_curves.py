"""The curves of a head sweep whose members are made up."""

import numpy as np

from headcount.estimate.curve import Curve, Tried

SAMPLES = 3000


def curve_of(members):
    return Curve(tuple(members), labels=False)


def sweep(dimension, *, heads=range(1, 9), noise=0.0, sharpness=1e-2, starts=2, seed=0):
    """Members that lack a part of the target below D, are near it from D on, and never see the noise."""
    random = np.random.default_rng(seed)
    parts = random.normal(size=(dimension, SAMPLES)) / np.sqrt(dimension)
    truth, seen = parts.sum(axis=0), noise * random.normal(size=SAMPLES)
    tried = []
    for count in heads:
        for _ in range(starts):
            output = parts[: min(count, dimension)].sum(axis=0) + sharpness * random.normal(size=SAMPLES)
            costs = (output - truth - seen) ** 2
            tried.append(Tried(count, float(costs.mean()), output[:, None], costs))
    return curve_of(tried)
