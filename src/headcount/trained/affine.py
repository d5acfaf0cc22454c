"""A bias as one more row of a map, which then takes [x, 1]."""

import numpy as np
from jaxtyping import Float

from headcount.trained.attention import Biases, Rows

Columns = Float[np.ndarray, "head input number"]


def with_bias_row(weights: Rows, biases: Biases | None) -> Columns:
    """Of every head, the map of [x, 1], or of x where there is no bias.

    >>> with_bias_row(np.ones((1, 2, 3)), np.zeros((1, 2)))[0]
    array([[1., 1.],
           [1., 1.],
           [1., 1.],
           [0., 0.]])
    """
    columns = weights.transpose(0, 2, 1)
    return columns if biases is None else np.concatenate([columns, biases[:, None]], axis=1)


def without_bias_row(columns: Columns, *, biased: bool) -> tuple[Rows, Biases | None]:
    """Weights and biases again.

    >>> weights, biases = without_bias_row(np.ones((1, 4, 2)), biased=True)
    >>> weights.shape, biases.shape
    ((1, 2, 3), (1, 2))
    """
    weights = columns[:, :-1] if biased else columns
    return np.ascontiguousarray(weights.transpose(0, 2, 1)), columns[:, -1] if biased else None
