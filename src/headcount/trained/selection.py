"""Which heads of a layer to keep: backward elimination, exchanges, and what they are held against.

All functions take covariances that hold a ridge (`Covariances.with_ridge`); a head is a block of columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from headcount.errors import InvalidInput
from headcount.trained.arrays import Array, identity, library, solved, to_numpy
from headcount.trained.refit import Covariances, Matrix, columns_of

Scores = Float[np.ndarray, " head"]

WORTH_AN_EXCHANGE = 1e-6  # of the variance: less may be rounding


@dataclass(frozen=True)
class Ranking:
    """Heads from the first to keep to the last.

    - `errors`: what the best projection leaves with the first k of them, k = 0, …, h.
    """

    order: tuple[int, ...]
    errors: tuple[float, ...]

    def kept(self, count: int) -> tuple[int, ...]:
        """The first heads of the order, sorted.

        >>> Ranking((2, 0, 1), (3.0, 1.0, 0.5, 0.0)).kept(2)
        (0, 2)
        """
        return tuple(sorted(self.order[:count]))


def eliminated(covariances: Covariances, *, head_dim: int) -> Ranking:
    """Backward elimination: the head whose removal raises the error least goes first.

    Removing head i raises it by tr(B_iᵀ [(G_SS⁻¹)_ii]⁻¹ B_i), as the others take over what they can of it.

    >>> from headcount.trained.refit import Moments
    >>> tokens = np.random.default_rng(0).normal(size=(90, 3))
    >>> covariances = Moments.of(tokens, tokens * [1, 3, 2]).centred().with_ridge(0)
    >>> eliminated(covariances, head_dim=1).order
    (1, 2, 0)
    """
    left = list(range(_heads(covariances, head_dim)))
    order, worths = [], []  # the last head first
    inverse, weight = _solved(covariances.gram, covariances.cross)
    while left:
        each = _explained(_diagonal(inverse, head_dim), weight)
        weakest = int(each.argmin())
        order.append(left.pop(weakest))
        worths.append(each[weakest])
        inverse, weight = _without(inverse, weight, weakest, head_dim)
    explained = np.cumsum(to_numpy(library(inverse).stack(worths[::-1])))
    errors = np.maximum(float(covariances.variance) - np.concatenate([[0.0], explained]), 0.0)
    return Ranking(tuple(order[::-1]), tuple(errors.tolist()))


def exchanged(covariances: Covariances, kept: Sequence[int], *, head_dim: int) -> tuple[int, ...]:
    """Exchanges one kept head for another, the best pair first, while that lowers the error."""
    kept, heads = sorted(kept), _heads(covariances, head_dim)
    least = WORTH_AN_EXCHANGE * float(covariances.variance)
    for _ in range(heads):
        others = sorted(set(range(heads)) - set(kept))
        if not kept or not others:
            break
        gains = _gains(covariances, kept, others, head_dim)
        out, into = np.unravel_index(gains.argmax(), gains.shape)
        if gains[out, into] <= least:
            break
        kept = sorted({*kept, others[into]} - {kept[out]})
    return tuple(kept)


def _gains(
    covariances: Covariances, kept: Sequence[int], others: Sequence[int], head_dim: int
) -> Float[np.ndarray, "kept other"]:
    """How much lower the error is with one of the others in place of a kept head.

    With S the kept heads, T = G_SS⁻¹ G_So and B = G_SS⁻¹ C_S, what S cannot explain of another head o is
    G_oo − G_oS T and C_o − G_oS B. Without head i of S it is more, by T_iᵀ [(G_SS⁻¹)_ii]⁻¹ T_i and
    T_iᵀ [(G_SS⁻¹)_ii]⁻¹ B_i.
    """
    inside, outside = columns_of(kept, head_dim), columns_of(others, head_dim)
    rows = covariances.gram[inside]
    between, number = rows[:, outside], len(outside)
    xp = library(rows)
    inverse, both = _solved(rows[:, inside], xp.hstack([between, covariances.cross[inside]]))
    taken_over, weight = both[:, :number], both[:, number:]
    pivots = _diagonal(inverse, head_dim)
    lost = _explained(pivots, weight)
    gram = _diagonal(covariances.gram, head_dim)[list(others)] - _products(between, taken_over, head_dim)
    cross = covariances.cross[outside] - between.T @ weight
    own = both.reshape(len(kept), head_dim, -1)
    moved, gains = xp.linalg.solve(pivots, own), []
    for place in range(len(kept)):
        taken, into = own[place, :, :number], moved[place]
        left = gram + _products(taken, into[:, :number], head_dim)
        gains.append(_explained(left, cross + taken.T @ into[:, number:]))
    return to_numpy(xp.stack(gains) - lost[:, None])


def _solved(gram: Array, right: Array) -> tuple[Array, Array]:
    """G⁻¹ and G⁻¹ R."""
    size = len(gram)
    both = solved(gram, library(gram).hstack([identity(gram), right]))
    return both[:, :size], both[:, size:]


def _without(inverse: Array, weight: Array, place: int, head_dim: int) -> tuple[Array, Array]:
    """G⁻¹ and B of all heads but one, by an update of rank n."""
    start, end = place * head_dim, (place + 1) * head_dim
    xp = library(inverse)
    left = xp.concatenate([inverse[:start], inverse[end:]])
    left, beside = xp.hstack([left[:, :start], left[:, end:]]), left[:, start:end]
    step = xp.linalg.solve(inverse[start:end, start:end], beside.T).T
    others = xp.concatenate([weight[:start], weight[end:]])
    return left - step @ beside.T, others - step @ weight[start:end]


def _explained(blocks: Array, cross: Array) -> Array:
    """tr(C_iᵀ G_i⁻¹ C_i) of every head: what it explains if G_i and C_i are what others cannot, and what it
    is worth if they are (G_SS⁻¹)_ii and B_i.
    """
    by_head = cross.reshape(*blocks.shape[:2], -1)
    return (by_head * library(cross).linalg.solve(blocks, by_head)).sum((1, 2))


def _diagonal(matrix: Array, head_dim: int) -> Array:
    """The block of every head."""
    heads = range(0, len(matrix), head_dim)
    return library(matrix).stack([matrix[at : at + head_dim, at : at + head_dim] for at in heads])


def _products(one: Array, other: Array, head_dim: int) -> Array:
    """The block of every head of XᵀY, without the other ones."""
    swapped = library(one).swapaxes
    columns, rows = (swapped(each.reshape(len(each), -1, head_dim), 0, 1) for each in (one, other))
    return columns.mT @ rows


def by_scores(scores: Scores) -> tuple[int, ...]:
    """Heads from the highest score to the lowest; of equals, the first stays.

    >>> by_scores(np.array([0.1, 0.5, 0.3]))
    (1, 2, 0)
    """
    return tuple(map(int, np.argsort(-np.asarray(scores, np.float64), kind="stable")))


def magnitudes(*weights: Matrix, head_dim: int) -> Scores:
    """The size of each head's weights, √Σ w², over matrices with a head's entries in its block of rows.

    >>> magnitudes(np.array([[3.0], [4.0], [1.0], [0.0]]), head_dim=2)
    array([5., 1.])
    """
    squares = sum((np.asarray(weight, np.float64) ** 2).sum(axis=1) for weight in weights)
    sizes: Scores = np.sqrt(np.reshape(squares, (-1, head_dim)).sum(axis=1))
    return sizes


def mixed(*orders: Sequence[int]) -> tuple[int, ...]:
    """Heads by their mean place in several orders: an order that is off where data is few is held by another.

    >>> mixed((0, 1, 2), (2, 0, 1))
    (0, 2, 1)
    """
    places = np.mean([np.argsort(order) for order in orders], axis=0)
    return by_scores(-places)


def _heads(covariances: Covariances, head_dim: int) -> int:
    """How many blocks of columns there are."""
    heads, rest = divmod(len(covariances.gram), head_dim)
    if rest:
        raise InvalidInput(
            f"head_dim: expected a divisor of {len(covariances.gram)}, the columns of z, got {head_dim}"
        )
    return heads
