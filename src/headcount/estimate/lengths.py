"""How the error changes with the length: below D it grows, from D on it does not.

Sequences of different lengths in a data set are grouped by length; where samples of any length can be drawn,
half the length is tried too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from headcount.estimate.curve import Curve, Point
from headcount.results.intervals import combined, log_mean

GROUPS = 3
_SMALLEST = 1e-12


def over_groups(
    curve: Curve,
    lengths: Int[np.ndarray, " sample"],
    targets: Float[np.ndarray, "sample output"] | None = None,
) -> dict[str, Any] | None:
    """The slope of log error on log T for each head count, over thirds of the sequences by length.

    An error is a share of the variance of the targets in its third: the maximum over many tokens varies less
    than that over few. None where lengths do not differ enough to be grouped.

    - `targets`: numbers; None for labels, whose errors are shares already.
    """
    between = np.quantile(lengths, np.arange(1, GROUPS) / GROUPS)
    group = np.searchsorted(between, lengths)
    groups = [group == place for place in np.unique(group)]
    if len(groups) < 2:
        return None
    sizes = [float(lengths[members].mean()) for members in groups]
    spreads = [1.0 if targets is None else float(targets[members].var(axis=0).mean()) for members in groups]

    along = np.log(sizes) - np.mean(np.log(sizes))
    weights = along / np.dot(along, along)
    of_spreads = float(np.dot(weights, np.log(np.maximum(spreads, _SMALLEST))))

    def of(heads: int) -> dict[str, Any]:
        costs = np.maximum(curve.selected(heads).costs, _SMALLEST)
        found = combined([log_mean(costs[members]) for members in groups], weights)
        slope, interval = found.value - of_spreads, np.array(found.interval) - of_spreads
        return {"heads": heads, "slope": slope, "interval": interval.tolist()}

    return {"lengths": sizes, "slopes": [of(heads) for heads in curve.heads]}


def over_two(short: Sequence[Point], long: Sequence[Point], *, lengths: tuple[int, int]) -> dict[str, Any]:
    """The same between two lengths; the interval follows from those of the errors."""
    whole, span = {point.heads: point for point in long}, np.log(lengths[1] / lengths[0])

    def slope(before: float, after: float) -> float:
        return float(np.log(max(after, _SMALLEST) / max(before, _SMALLEST)) / span)

    slopes = [
        {
            "heads": point.heads,
            "errors": [point.value, whole[point.heads].value],
            "slope": slope(point.value, whole[point.heads].value),
            "interval": [
                slope(point.high, whole[point.heads].low),
                slope(point.low, whole[point.heads].high),
            ],
        }
        for point in short
        if point.heads in whole
    ]
    return {"lengths": list(lengths), "slopes": slopes}
