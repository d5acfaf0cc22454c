"""Which heads of a layer to keep: backward elimination, exchanges, and what they are held against.

All functions take covariances that hold a ridge (`Covariances.with_ridge`); a head is a block of columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from headcount.errors import InvalidInput
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


def ranking(covariances: Covariances, order: Sequence[int], *, head_dim: int) -> Ranking:
    """An order with its errors, all from one factorisation.

    With G = LLᵀ, columns in this order, the first k heads explain the first k blocks of |L⁻¹C|².
    """
    columns = columns_of(order, head_dim)
    lower = cholesky(covariances.gram[np.ix_(columns, columns)], lower=True)
    explained = (solve_triangular(lower, covariances.cross[columns], lower=True) ** 2).sum(axis=1)
    by_head = explained.reshape(len(order), head_dim).sum(axis=1)
    left = covariances.variance - np.concatenate([[0.0], np.cumsum(by_head)])
    return Ranking(tuple(map(int, order)), tuple(np.maximum(left, 0.0).tolist()))


def eliminated(covariances: Covariances, *, head_dim: int) -> Ranking:
    """Backward elimination: the head whose removal raises the error least goes first.

    Removing head i raises it by tr(B_iᵀ [(G_SS⁻¹)_ii]⁻¹ B_i), as the others take over what they can of it.

    >>> from headcount.trained.refit import Moments
    >>> tokens = np.random.default_rng(0).normal(size=(90, 3))
    >>> covariances = Moments.of(tokens, tokens * [1, 3, 2]).centred().with_ridge(0)
    >>> eliminated(covariances, head_dim=1).order
    (1, 2, 0)
    """
    heads = _heads(covariances, head_dim)
    sweep = Sweep(covariances, range(heads), head_dim=head_dim)
    gone: list[int] = []
    while len(gone) < heads:
        weakest = min((head for head in range(heads) if head not in gone), key=sweep.worth)
        sweep.move(weakest)
        gone.append(weakest)
    return ranking(covariances, gone[::-1], head_dim=head_dim)


def exchanged(covariances: Covariances, kept: Sequence[int], *, head_dim: int) -> tuple[int, ...]:
    """Exchanges one kept head for another, the best pair first, while that lowers the error."""
    heads = _heads(covariances, head_dim)
    kept = sorted(kept)
    least = WORTH_AN_EXCHANGE * covariances.variance
    for _ in range(heads):
        sweep = Sweep(covariances, kept, head_dim=head_dim)
        gains: dict[tuple[int, int], float] = {}
        for head in kept:
            lost = sweep.worth(head)
            sweep.move(head)
            others = (other for other in range(heads) if other not in kept)
            gains |= {(head, other): sweep.worth(other) - lost for other in others}
            sweep.move(head)
        best = max(gains, key=lambda pair: gains[pair], default=None)
        if best is None or gains[best] <= least:
            break
        kept = sorted({*kept, best[1]} - {best[0]})
    return tuple(kept)


class Sweep:
    """The sweep operator on [[G, C]]: heads go in and out of the set S, each by one update of rank n.

    Where S stands, the matrix holds −G_SS⁻¹ and B_S; elsewhere what S cannot explain of G and C. Hence what
    a head outside would explain, Cᵀ G⁻¹ C, and what one inside does, Bᵀ [(G_SS⁻¹)_ii]⁻¹ B, read the same.
    """

    def __init__(self, covariances: Covariances, inside: Sequence[int], *, head_dim: int) -> None:
        self.head_dim = head_dim
        self.inside = set(inside)
        columns = columns_of(sorted(inside), head_dim)
        others = np.setdiff1d(np.arange(len(covariances.gram)), columns)
        self._gram, self._cross = covariances.gram.copy(), covariances.cross.copy()
        if not len(columns):
            return
        factor = cho_factor(covariances.gram[np.ix_(columns, columns)])
        between = covariances.gram[np.ix_(columns, others)]
        taken_over, fitted = cho_solve(factor, between), cho_solve(factor, covariances.cross[columns])
        self._gram[np.ix_(columns, columns)] = -cho_solve(factor, np.eye(len(columns)))
        self._gram[np.ix_(columns, others)] = taken_over
        self._gram[np.ix_(others, columns)] = taken_over.T
        self._gram[np.ix_(others, others)] -= between.T @ taken_over
        self._cross[columns] = fitted
        self._cross[others] -= between.T @ fitted

    def worth(self, head: int) -> float:
        """How much lower the error is with this head beside the others of S."""
        block, sign = self._block(head), self._sign(head)
        cross = self._cross[block]
        return float((cross * np.linalg.solve(sign * self._gram[block, block], cross)).sum())

    def move(self, head: int) -> None:
        """Put the head into S, or take it out."""
        block, sign = self._block(head), self._sign(head)
        pivot = np.linalg.inv(self._gram[block, block])
        beside, cross = self._gram[:, block].copy(), self._cross[block].copy()
        beside[block] = 0  # the pivot's own rows are set below
        step = beside @ pivot
        self._gram -= step @ beside.T
        self._cross -= step @ cross
        self._gram[:, block], self._gram[block, :] = sign * step, sign * step.T
        self._gram[block, block] = -pivot
        self._cross[block] = sign * pivot @ cross
        self.inside ^= {head}

    def _block(self, head: int) -> slice:
        return slice(head * self.head_dim, (head + 1) * self.head_dim)

    def _sign(self, head: int) -> int:
        return -1 if head in self.inside else 1


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
