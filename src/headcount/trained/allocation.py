"""How many heads each layer keeps of a total, from what each layer and count was measured to cost."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
from jaxtyping import Float
from scipy.optimize import isotonic_regression

from headcount.errors import InvalidInput
from headcount.validation import check_integer, expected

Effects = Float[np.ndarray, " count"]


def shares(effects: Sequence[Effects], total: int) -> tuple[int, ...]:
    """The counts k with the least Σ_l effects[l][k_l − 1], over Σ_l k_l = total, k_l ≥ 1.

    - `effects`: of each layer, what the model loses with 1, 2, … of its heads, the other layers whole.

    Exact for any table: the best of the first layers for each total they may have is the best of those
    before it and one count of the last. A table that is convex is served as well by giving head after head
    to where it lowers the loss most; measured ones have noise.

    >>> shares([np.array([9.0, 1.0, 0.0]), np.array([2.0, 1.0, 0.0])], 4)
    (3, 1)
    """
    tables = [_table(layer) for layer in effects]
    if not tables:
        raise expected("effects", "at least one layer", effects)
    most = [len(table) for table in tables]
    check_integer("total", total, at_least=len(tables), at_most=sum(most))
    best, chosen = np.full(total + 1, np.inf), []
    best[0] = 0.0
    for table in tables:
        with_counts = np.full((len(table), total + 1), np.inf)
        for count in range(1, min(len(table), total) + 1):
            with_counts[count - 1, count:] = best[: total + 1 - count] + table[count - 1]
        chosen.append(with_counts.argmin(axis=0) + 1)
        best = with_counts.min(axis=0)
    counts: list[int] = []
    for layer in reversed(chosen):
        counts.append(int(layer[total - sum(counts)]))
    return tuple(reversed(counts))


def uniform(heads: Sequence[int], total: int) -> tuple[int, ...]:
    """The total in shares as equal as can be, in proportion to the heads of each layer.

    >>> uniform([12, 12, 6], 15)
    (6, 6, 3)
    """
    check_integer("total", total, at_least=len(heads), at_most=sum(heads))
    ends = [round(whole * total / sum(heads)) for whole in accumulate(heads, initial=0)]
    counts = [max(end - start, 1) for start, end in pairwise(ends)]
    while sum(counts) > total:  # a layer that had none has been given one
        counts[counts.index(max(counts))] -= 1
    return tuple(counts)


def without_noise(effects: Effects) -> Effects:
    """The closest table that never rises with a head more: what more heads lose is noise of the measurement.

    >>> without_noise(np.array([4.0, 1.0, 2.0, 0.0]))
    array([4. , 1.5, 1.5, 0. ])
    """
    found: Effects = isotonic_regression(_table(effects), increasing=False).x
    return found


def filled_in(counts: Sequence[int], measured: Sequence[float]) -> Effects:
    """A table for 1, 2, …, the last count, from those that were measured, on straight lines between.

    Where the last count is all heads, its effect is 0.

    >>> filled_in([1, 2, 4], [5.0, 3.0, 0.0])
    array([5. , 3. , 1.5, 0. ])
    """
    if list(counts) != sorted(set(counts)) or not counts or counts[0] != 1 or len(counts) != len(measured):
        raise expected("counts", "ascending integers from 1, as many as effects", list(counts))
    return np.interp(np.arange(1, counts[-1] + 1), counts, measured)


def _table(effects: Effects) -> Effects:
    table = np.asarray(effects, np.float64)
    if table.ndim != 1 or not len(table) or not np.isfinite(table).all():
        raise InvalidInput(f"effects: expected finite numbers for 1, 2, ... heads, got {table}")
    return table
