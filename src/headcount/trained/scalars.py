"""Kwon et al. (2022): heads exchanged by their Fisher information, and one number for each that is kept."""

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np
from jaxtyping import Float

from headcount.trained.arrays import to_numpy
from headcount.trained.attention import AttentionBlock
from headcount.trained.importance import Gradients
from headcount.trained.refit import Matrix, Moments, columns_of

MAX_SCALAR = 10.0  # where a larger one fits best, heads stay as they are


def rearranged(gradients: Gradients, count: int) -> tuple[int, ...]:
    """So many heads of a layer, the others being those whose gates matter least together.

    With g the derivatives of the loss by the gates, removing R costs Σ_samples (Σ_R g)²: heads whose
    derivatives cancel can go together. Greedy: from the heads that matter least one by one, every other takes
    the place of the one without which that sum is smallest.

    >>> rearranged(np.array([[1.0, 3.0, -3.0], [-1.0, 4.0, -4.0]]), 1)
    (0,)
    """
    heads = gradients.shape[1]
    order = np.argsort((gradients**2).sum(axis=0), kind="stable").tolist()
    removed = order[: heads - count]
    for head in order[heads - count :] if removed else ():
        offered = [*removed, head]
        without = gradients[:, offered].sum(axis=1, keepdims=True) - gradients[:, offered]
        offered.pop(int((without**2).sum(axis=0).argmin()))
        removed = offered
    return tuple(sorted(set(range(heads)) - set(removed)))


def fitted_scalars(
    moments: Moments,
    weight: Matrix,
    bias: Float[np.ndarray, " width"] | None,
    heads: Sequence[int],
    *,
    head_dim: int,
) -> Float[np.ndarray, " head"]:
    """The m with the least Σ |o − Σ_i m_i z_i W_i − b|², over the heads that are kept.

    Its normal equations come from the same sums: Σ (z_i W_i)·(z_j W_j) = Σ_ab G_ij[a, b] (W_i W_jᵀ)[a, b].
    """
    columns, kept = columns_of(heads, head_dim), len(heads)
    gram, cross, rows = to_numpy(moments.gram), to_numpy(moments.cross), weight[columns]
    products = gram[np.ix_(columns, columns)] * (rows @ rows.T)
    between = products.reshape(kept, head_dim, kept, head_dim).sum(axis=(1, 3))
    shift = 0.0 if bias is None else np.outer(gram[columns, -1], bias)
    wanted = ((cross[columns] - shift) * rows).sum(axis=1).reshape(kept, head_dim).sum(axis=1)
    found: Float[np.ndarray, " head"] = np.linalg.lstsq(between, wanted, rcond=None)[0]
    return found if np.abs(found).max() <= MAX_SCALAR else np.ones(kept)


def scale(block: AttentionBlock, moments: Sequence[Moments], kept: Sequence[int], *, ridge: float) -> None:
    """Keep these heads, each times the number that serves best; `ridge` is not used."""
    weight, bias, size = block.output_weight(), block.output_bias(), block.head_dim
    heads = sorted(kept)
    scalars = fitted_scalars(reduce(add, moments), weight, bias, heads, head_dim=size)
    block.keep(heads)
    block.set_output(weight[columns_of(heads, size)] * np.repeat(scalars, size)[:, None], bias)
