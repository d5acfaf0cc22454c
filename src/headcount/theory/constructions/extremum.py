"""The maximum of numbers in [0, 1] by two hidden ReLU layers, to 1/N."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class TwoLayers(NamedTuple):
    """last · relu(middle · relu(first · u + first_bias) + middle_bias)."""

    first: Float[np.ndarray, "first numbers"]
    first_bias: Float[np.ndarray, " first"]
    middle: Float[np.ndarray, "middle first"]
    middle_bias: Float[np.ndarray, " middle"]
    last: Float[np.ndarray, "1 middle"]

    def __call__(self, u: Float[np.ndarray, "points numbers"]) -> Float[np.ndarray, " points"]:
        """Its value, row by row."""
        hidden = np.maximum(u @ self.first.T + self.first_bias, 0)
        return (np.maximum(hidden @ self.middle.T + self.middle_bias, 0) @ self.last.T)[:, 0]


def maximum(numbers: int, levels: int) -> TwoLayers:
    """max_t u_t to 1/N, from above: Σ_{j<N} min(S_j, 1/N) with S_j = Σ_t relu(u_t − j/N).

    A level j/N that the maximum clears by 1/N or more adds a whole step 1/N, one that it does not reach
    adds nothing, and the one level between adds at least what is missing and at most a step. So the sum
    lies between the maximum and the next multiple of 1/N. Values below 0 count as 0, values above 1 as 1.

    >>> maximum(3, 10)(np.array([[0.2, 0.55, 0.52], [0.0, 0.0, 0.0]])).round(6)
    array([0.57, 0.  ])
    """
    steps = np.arange(levels) / levels
    sums = np.kron(np.eye(levels), np.ones((1, numbers)))
    return TwoLayers(
        first=np.tile(np.eye(numbers), (levels, 1)),
        first_bias=-np.repeat(steps, numbers),
        middle=np.repeat(sums, 2, axis=0),
        middle_bias=np.tile([0.0, -1 / levels], levels),
        last=np.tile([1.0, -1.0], levels)[None],
    )
