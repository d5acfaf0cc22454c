"""How an error grows with T or falls with N: a line through the logarithms of all seeds."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import stats

from headcount.reproduce.claims import Verdict, at_selected_rate


@dataclass(frozen=True)
class Slope:
    """An exponent, and its 95% interval by Student's t on the residual degrees of freedom."""

    value: float
    low: float
    high: float
    points: int

    @property
    def sign(self) -> int | None:
        """1 where the whole interval is above 0, -1 where it is below, None where it is neither."""
        return 1 if self.low > 0 else -1 if self.high < 0 else None

    def __str__(self) -> str:
        return f"{self.value:.2f} ({self.low:.2f} to {self.high:.2f})"


def slope(x: Float[np.ndarray, " points"], errors: Float[np.ndarray, " points"]) -> Slope | None:
    """log(error) = slope · log(x) + constant by least squares; None with fewer than three values of x.

    >>> str(slope(np.array([8.0, 8.0, 16.0, 32.0]), np.array([1.0, 1.0, 2.0, 4.0])))
    '1.00 (1.00 to 1.00)'
    """
    if len(np.unique(x)) < 3:
        return None
    line = stats.linregress(np.log(x), np.log(errors))
    reach = float(stats.t.ppf(0.975, len(x) - 2) * line.stderr)
    return Slope(float(line.slope), line.slope - reach, line.slope + reach, len(x))


def slope_along(frame: pd.DataFrame, column: str) -> Slope | None:
    """Of the test errors of all seeds, each cell at the learning rate that validation errors chose."""
    chosen = pd.concat([at_selected_rate(members) for _, members in frame.groupby(column)])
    return slope(chosen[column].to_numpy(float), chosen["test_error"].to_numpy(float))


def grows_below(frame: pd.DataFrame, *, dimension: int, what: str) -> list[Verdict]:
    """The direction of the lower bound: the error grows with T for every h < D, and from D on it does not.

    "Does not grow" holds where the whole interval is at or below 0 and fails where all of it is above; an
    interval on both sides of 0 cannot tell.
    """
    verdicts = []
    for heads in sorted(frame["heads"].unique().tolist()):
        members, below = frame[frame["heads"] == heads], heads < dimension
        claim = f"{what}: with h = {heads} the error {'grows' if below else 'does not grow'} with T"
        found = slope_along(members, "length")
        if found is None:
            verdicts.append(Verdict(claim, None, "needs three lengths"))
            continue
        holds = None if found.sign is None else (found.sign > 0) is below
        verdicts.append(Verdict(claim, holds, f"slope {found}, {found.points} members"))
    return verdicts
