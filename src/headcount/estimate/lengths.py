"""How the error moves with the length: below D it grows, from D on it does not.

Where sequences of a data set differ in length they are told apart by it; where samples of any length can be
had, half of it is tried too.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from headcount.estimate.curve import Curve, Point

GROUPS = 3
RESAMPLES = 200
_SMALLEST = 1e-12


def over_groups(
    curve: Curve,
    lengths: Int[np.ndarray, " sample"],
    targets: Float[np.ndarray, "sample output"] | None = None,
) -> dict[str, Any] | None:
    """The slope of log error on log T for each head count, over thirds of the sequences by length.

    An error is a share of the variance of the targets in its third: the maximum over many tokens varies less
    than that over few. None where their lengths do not differ enough to be told apart.

    - `targets`: numbers; None where labels are learnt, whose errors are shares already.
    """
    between = np.quantile(lengths, np.arange(1, GROUPS) / GROUPS)
    group = np.searchsorted(between, lengths)
    groups = [group == place for place in np.unique(group)]
    if len(groups) < 2:
        return None
    means = [float(lengths[members].mean()) for members in groups]
    spreads = [1.0 if targets is None else float(targets[members].var(axis=0).mean()) for members in groups]

    def slope(parts: Sequence[np.ndarray]) -> float:
        levels = [
            np.log(max(part.mean() / max(spread, _SMALLEST), _SMALLEST))
            for part, spread in zip(parts, spreads, strict=True)
        ]
        return float(np.polyfit(np.log(means), levels, 1)[0])

    def of(heads: int) -> dict[str, Any]:
        costs = curve.selected(heads).costs
        parts, random = [costs[members] for members in groups], np.random.default_rng(heads)
        drawn = [slope([random.choice(part, len(part)) for part in parts]) for _ in range(RESAMPLES)]
        ends = np.quantile(drawn, [0.025, 0.975])
        return {"heads": heads, "slope": slope(parts), "interval": [float(end) for end in ends]}

    return {"lengths": means, "slopes": [of(heads) for heads in curve.heads]}


def over_two(short: Sequence[Point], long: Sequence[Point], *, lengths: tuple[int, int]) -> dict[str, Any]:
    """The same between two lengths, with what the intervals of the errors leave open."""
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
