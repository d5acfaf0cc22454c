"""How likely it is that h heads are not enough: a law of the distance of members from the reference."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression
from scipy.special import expit

from headcount.estimate.curve import Curve, values

FURTHEST_OUT = 4.0  # deviations: more add no evidence
CLEARLY_OUT = 2.0  # from here on the size of a distance counts in full
SMALL, SMALL_FOR_LABELS = -3.0, -2.0  # decimal logs of distances that hardly matter


@dataclass(frozen=True)
class DimensionLaw:
    """A logistic law of three measures of the distance of h heads.

    Its weights are close to a fit to the CALIBRATION tasks (benchmarks/dimension_tasks.py) that were trained
    at the time; its form was chosen with an earlier draw of the reported tasks in view (docs/estimate.md).

    More heads can do all that fewer can, so the curve is first made monotone (isotonic regression): any rise
    in it is chance.

    - `excess`: weight of how far the log distance lies above those within the reference, in their standard
      deviations. Reference members differ too: by their starts, and for lack of samples.
    - `level`: weight of the decimal log of the distance, relative to a small one. Mean pooling gains a little
      from more heads, and that is not retrieval.
    - `rest`: weight of the decimal log of the distance relative to that of the fewest heads, below a tenth.
    """

    constant: float
    excess: float
    level: float
    rest: float

    def probabilities(self, curve: Curve) -> dict[int, float]:
        """The probability of every D: that D − 1 heads are not enough, and that D are."""
        not_enough = np.concatenate([[1.0], self.chances(curve), [0.0]])
        return dict(zip(curve.heads, (not_enough[:-1] - not_enough[1:]).tolist(), strict=True))

    def chances(self, curve: Curve) -> Float[np.ndarray, " head_count"]:
        """For every number of heads but the last, the probability that it is not enough; it never rises."""
        logs = np.log(np.maximum(values(curve.distances()), 1e-12))
        falling = isotonic_regression(logs, increasing=False).x
        usual, deviation = curve.reference_spread
        out = np.clip((falling - usual) / deviation, 0, FURTHEST_OUT)
        level = falling / np.log(10) - (SMALL_FOR_LABELS if curve.labels else SMALL)
        rest = np.minimum((falling - falling[0]) / np.log(10) + 1, 0)
        size = (self.level * level + self.rest * rest) * np.minimum(out / CLEARLY_OUT, 1)
        chances: np.ndarray = expit(self.constant + self.excess * out + size)[:-1]
        return np.minimum.accumulate(chances)


# For curves after a tenth of the training, and after all of it.
EARLY, FINAL = DimensionLaw(-5.4, 1.5, 2.1, 5.0), DimensionLaw(-5.7, 2.1, 4.5, 0.8)
