"""Data in larger arrays, without influence on any result.

A token that is added is masked. A sample that is added repeats the last one; it is never drawn and counts in
no mean. A number of a token that is added is 0, so that the weights that read it get no gradient and stay 0.
An output that is added is 0 in the data and in the model, and left out of the loss.
"""

from typing import Self

import equinox as eqx
import numpy as np
from jaxtyping import Int

from headcount.engine.data import Data, Split
from headcount.models.architecture import Architecture
from headcount.models.network import Parameter as AnyArray
from headcount.trials.sizes import ArraySizes


class Extent(eqx.Module):
    """How much of the arrays is data: numbers that reach a program as arguments."""

    train: Int[AnyArray, ""]
    validation: Int[AnyArray, ""]
    outputs: Int[AnyArray, ""]

    @classmethod
    def of(cls, data: Data) -> Self:
        """That of data in arrays of its own size."""
        sizes = data.train.y.shape[1], data.validation.y.shape[1], data.train.y.shape[2]
        return cls(*(np.asarray(size, np.int32) for size in sizes))


def enlarged(data: Data, sizes: ArraySizes, architecture: Architecture) -> Data:
    """The data in arrays of these sizes, for members of this architecture."""
    outputs = architecture.output_dim

    def split(part: Split, samples: int) -> Split:
        places = np.arange(samples).clip(max=part.x.shape[1] - 1)
        x, y = np.asarray(part.x)[:, places], np.asarray(part.y)[:, places]
        mask = np.ones(x.shape[:3], bool) if part.mask is None else np.asarray(part.mask)[:, places]
        return Split(
            x=_filled_up(_filled_up(x, 2, sizes.length), 3, architecture.token_dim),
            y=_filled_up(y, 2, outputs),
            mask=_filled_up(mask, 2, sizes.length),
        )

    return Data(
        train=split(data.train, sizes.train),
        validation=split(data.validation, sizes.validation),
        test=split(data.test, sizes.test),
        mean=_filled_up(np.asarray(data.mean), 1, outputs),
        deviation=_filled_up(np.asarray(data.deviation), 1, outputs, 1),
    )


def _filled_up(array: np.ndarray, axis: int, size: int, value: float = 0) -> np.ndarray:
    spare = [(0, size - array.shape[axis] if place == axis else 0) for place in range(array.ndim)]
    return np.pad(array, spare, constant_values=value)
