"""How far a count may be off: samples drawn anew, heads selected again, and heads counted again."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headcount.trained.descent import Descent

REPLICATES = 20  # selections from folds drawn with replacement
TOGETHER = 10  # of all layers at once, each of which takes a pass over its samples
DRAWS = 500  # of the judge's samples, in equal parts beside each selection


@dataclass(frozen=True, eq=False)
class Reselected:
    """What other selections change in the mean rise, at some places of a way down.

    - `changes`: about their mean. A draw with replacement holds two thirds of the samples, so that every
      refit to one is somewhat worse; that is no spread.
    """

    places: tuple[int, ...]
    changes: Float[np.ndarray, "replicate place"]

    @classmethod
    def of(cls, places: tuple[int, ...], changes: Float[np.ndarray, "replicate place"]) -> "Reselected":
        """From the changes as they are measured."""
        return cls(places, changes - changes.mean(axis=0))

    def at(self, places: list[int]) -> Float[np.ndarray, "replicate place"]:
        """On straight lines from the whole model, which no selection changes, and level beyond the last."""
        known = [0, *self.places]
        return np.stack([np.interp(places, known, [0.0, *row]) for row in self.changes])


def fold_draws(folds: int, *, seed: int, count: int = REPLICATES) -> Iterator[tuple[int, ...]]:
    """As many folds as there are, drawn with replacement, so often; two different ones at least.

    >>> all(len(draw) == 3 and len(set(draw)) > 1 for draw in fold_draws(3, seed=0))
    True
    """
    random, found = np.random.default_rng(seed), 0
    while found < count:
        draw = tuple(random.integers(folds, size=folds).tolist())
        if len(set(draw)) > 1 or folds == 1:
            found += 1
            yield draw


def places_again(descent: Descent, reselected: Reselected, *, seed: int = 0) -> tuple[int, int]:
    """The first and last place where the way ends in 95% of draws: by the rule by which it ended.

    In every draw the judge's samples are drawn anew and the rises are those of another selection; the bound
    lies as far above the mean as it did. Between places that were judged it is taken to be a line, and beyond
    the first that failed to go on as steeply as it came there, or as on the whole way if that is steeper.
    """
    random, judged = np.random.default_rng(seed), sorted(descent.steps)
    steps = [descent.steps[place] for place in judged]
    table = np.stack([step.rises for step in steps])
    drawn = random.integers(table.shape[1], size=(DRAWS, table.shape[1]))
    means = np.stack([row[drawn].mean(axis=1) for row in table], axis=1)
    changes, above = reselected.at(judged), [step.judged.high - step.judged.mean for step in steps]
    bounds = means + changes[np.arange(DRAWS) % len(changes)] + above
    bounds[:, 0] = 0.0  # the whole model
    bounds = np.maximum.accumulate(bounds, axis=1)
    every = np.arange(len(descent.way))
    ends = [int((_along(every, judged, row) <= descent.tolerance).sum()) - 1 for row in bounds]
    low, high = np.quantile(ends, [0.025, 0.975], method="nearest")
    return int(low), int(high)


def _along(every: np.ndarray, judged: list[int], bounds: np.ndarray) -> np.ndarray:
    """The bound at every place."""
    found = np.interp(every, judged, bounds)
    if len(judged) > 1:
        last, before = judged[-1], judged[-2]
        slope = max((bounds[-1] - bounds[-2]) / (last - before), bounds[-1] / last)
        found = found + slope * np.maximum(every - last, 0)
    return found
