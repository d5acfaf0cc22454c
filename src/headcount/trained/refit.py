"""The output projection of an attention layer, fitted anew to the heads that are kept.

With z the heads' outputs at a token, side by side, and o what the layer should write there, the sums

    G = Σ [z, 1]ᵀ[z, 1],   C = Σ [z, 1]ᵀ o,   s = Σ |o|²

hold all that least squares asks of the data: every set of heads is fitted and judged without another pass.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np
from jaxtyping import Float, Int

from headcount.errors import InvalidInput
from headcount.trained.arrays import Array, identity, library, solved, to_numpy
from headcount.validation import expected

Matrix = Float[Array, "rows columns"]
Columns = Int[np.ndarray, " column"]

# Times the mean variance of a column. The weakest keeps collinear heads solvable in float64.
RIDGES = tuple(float(10.0**power) for power in range(-8, 2))
MIN_RIDGE = RIDGES[0]


@dataclass(frozen=True, eq=False)
class Moments:
    """G, C and s of some tokens, of NumPy or of PyTorch; those of disjoint sets of tokens add up.

    >>> tokens = np.arange(6.0).reshape(3, 2)
    >>> both = Moments.of(tokens[:2], tokens[:2]) + Moments.of(tokens[2:], tokens[2:])
    >>> both.weight, both.squares
    (3.0, 55.0)
    """

    gram: Matrix
    cross: Matrix
    squares: Array | float

    def __post_init__(self) -> None:
        size = len(self.gram)
        if self.gram.shape != (size, size) or len(self.cross) != size or size < 2:
            raise InvalidInput(
                "moments: expected a square G and a C with as many rows, "
                f"got the shapes {tuple(self.gram.shape)} and {tuple(self.cross.shape)}"
            )
        # Of PyTorch, whoever makes many checks all at once: a look at a device waits for it.
        if isinstance(self.gram, np.ndarray) and not bool(self.usable):
            raise self.unusable()

    @property
    def usable(self) -> Array:
        """Whether they are finite and of at least one token, as an array."""
        finite = library(self.gram).isfinite
        return finite(self.gram).all() & finite(self.cross).all() & (self.gram[-1, -1] > 0)

    def unusable(self) -> InvalidInput:
        """The error where they are not."""
        return expected("moments", "finite numbers of at least one token", float(self.gram[-1, -1]))

    @classmethod
    def of(cls, outputs: Matrix, targets: Matrix) -> "Moments":
        """From what the heads put out at every token and what the layer should write."""
        outputs, targets = np.asarray(outputs, np.float64), np.asarray(targets, np.float64)
        with_one = np.hstack([outputs, np.ones((len(outputs), 1))])
        return cls(with_one.T @ with_one, with_one.T @ targets, float((targets**2).sum()))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.gram + other.gram, self.cross + other.cross, self.squares + other.squares)

    def times(self, factor: float) -> "Moments":
        """As if every token were there so often, such as 1 / length where samples count alike.

        >>> Moments.of(np.eye(2), np.eye(2)).times(0.5).weight
        1.0
        """
        return Moments(factor * self.gram, factor * self.cross, factor * self.squares)

    @property
    def weight(self) -> float:
        """How many tokens were summed, or what they weigh."""
        return float(self.gram[-1, -1])

    def centred(self) -> "Covariances":
        """The same about the means, per token: what is left once a bias is fitted."""
        count = self.gram[-1, -1]
        mean, target_mean = self.gram[-1, :-1] / count, self.cross[-1] / count
        return Covariances(
            gram=self.gram[:-1, :-1] / count - mean[:, None] * mean,
            cross=self.cross[:-1] / count - mean[:, None] * target_mean,
            variance=(self.squares / count - target_mean @ target_mean).clip(0.0),
            mean=mean,
            target_mean=target_mean,
        )


@dataclass(frozen=True, eq=False)
class Covariances:
    """G, C and s about the means, per token."""

    gram: Matrix
    cross: Matrix
    variance: Array | float
    mean: Float[Array, " column"]
    target_mean: Float[Array, " output"]

    def with_ridge(self, ridge: float, towards: Matrix | None = None) -> "Covariances":
        """λ |B − W|² as data: G + λI, C + λW and s + λ|W|², with λ in units of the mean variance.

        Every set of heads is then fitted with the ridge as it is without: its rows of W are drawn to, those
        of heads outside the set cost their size. A strong ridge towards the model's own projection therefore
        keeps it as it is, and removes what is small.
        """
        strength = self.strength(ridge)
        weight = library(self.gram).zeros_like(self.cross) if towards is None else towards
        return replace(
            self,
            gram=self.gram + strength * identity(self.gram),
            cross=self.cross + strength * weight,
            variance=self.variance + strength * (weight**2).sum(),
        )

    def strength(self, ridge: float) -> Array:
        """λ in the units of G."""
        xp = library(self.gram)
        mean = xp.trace(self.gram) / len(self.gram)
        return max(ridge, MIN_RIDGE) * xp.where(mean == 0, xp.ones_like(mean), mean)

    def seen_by(self, root: Array) -> "Covariances":
        """The same where an error e costs |e R|², R the root of a metric, but for what all columns leave.

        The best projection is the same in any metric; what a set of heads costs is not.

        >>> tokens = np.random.default_rng(0).normal(size=(50, 2))
        >>> plain = Moments.of(tokens, tokens * [1, 3]).centred().with_ridge(0)
        >>> blind = plain.seen_by(np.diag([1.0, 0.0]))
        >>> plain.error_left(np.array([1])) < plain.error_left(np.array([0]))
        True
        >>> blind.error_left(np.array([0])) < blind.error_left(np.array([1]))
        True
        """
        cross = self.cross @ root
        return replace(self, cross=cross, variance=(cross * solved(self.gram, cross)).sum())

    def error_left(self, columns: Columns) -> float:
        """tr(s − C_Sᵀ G_SS⁻¹ C_S), what the best projection of these columns leaves per token.

        >>> tokens = np.random.default_rng(0).normal(size=(50, 4))
        >>> round(Moments.of(tokens, tokens[:, :1]).centred().error_left(np.array([0, 1])), 12)
        0.0
        """
        weight = self.fitted(columns)
        return max(float(self.variance - (self.cross[columns] * weight).sum()), 0.0)

    def projection(self, columns: Columns, *, ridge: float, towards: Matrix | None) -> "Projection":
        """Of these columns, with its bias: what `with_ridge` and `fitted` give, worked out on them alone."""
        strength = self.strength(ridge)
        gram, cross = self.gram[columns][:, columns], self.cross[columns]
        if towards is not None:
            cross = cross + strength * towards[columns]
        weight = solved(gram + strength * identity(gram), cross)
        return Projection(columns, weight, self.target_mean - self.mean[columns] @ weight)

    def fitted(self, columns: Columns) -> Matrix:
        """B_S = G_SS⁻¹ C_S."""
        if not len(columns):
            return self.cross[:0]
        return solved(self.gram[columns][:, columns], self.cross[columns])


@dataclass(frozen=True, eq=False)
class Projection:
    """o ≈ z_S · weight + bias, for the kept columns S of z."""

    columns: Columns
    weight: Matrix
    bias: Float[Array, " output"]

    def error(self, moments: Moments) -> float:
        """The mean of |o − z_S · weight − bias|² over the tokens of these moments.

        >>> tokens = np.random.default_rng(0).normal(size=(50, 4))
        >>> moments = Moments.of(tokens, tokens[:, :1])
        >>> round(Projection(np.array([1]), np.zeros((1, 1)), np.zeros(1)).error(moments) * 50
        ...       - moments.squares, 9)
        0.0
        """
        return float(self.total_error(moments)) / moments.weight

    def total_error(self, moments: Moments) -> Array:
        """Its sum."""
        rows = np.append(self.columns, len(moments.gram) - 1)
        weight = library(moments.gram).vstack([self.weight, self.bias])
        bent = moments.gram[rows][:, rows] @ weight - 2 * moments.cross[rows]
        return (moments.squares + (weight * bent).sum()).clip(0.0)


def columns_of(heads: Iterable[int], head_dim: int) -> Columns:
    """The columns of z that some heads fill, in the order of the heads.

    >>> columns_of([2, 0], 2)
    array([4, 5, 0, 1])
    """
    starts = np.fromiter(heads, np.int64) * head_dim
    return (starts[:, None] + np.arange(head_dim)).ravel()


def refitted(
    moments: Moments,
    heads: Iterable[int],
    *,
    head_dim: int,
    ridge: float = MIN_RIDGE,
    towards: Matrix | None = None,
) -> Projection:
    """The projection of the kept heads that comes closest to the targets, with its bias.

    Sorted by head, as the layer that is left has them. `towards`: the projection of all heads, whose rows a
    strong ridge gives back.

    >>> tokens = np.random.default_rng(0).normal(size=(50, 4))
    >>> found = refitted(Moments.of(tokens, 3 * tokens[:, 2:3] + 1), [1], head_dim=2)
    >>> found.weight.ravel().round(6), found.bias.round(6)
    (array([3., 0.]), array([1.]))
    """
    columns = columns_of(sorted(heads), head_dim)
    return moments.centred().projection(columns, ridge=ridge, towards=towards)


def chosen_ridge(
    folds: Sequence[Moments],
    kept: Iterable[Sequence[int]],
    *,
    head_dim: int,
    towards: Matrix | None = None,
    ridges: Sequence[float] = RIDGES,
) -> float:
    """The strength with the least cross-validated error, over all these sets of heads together.

    With a single fold there is nothing to validate on, and the strongest ridge is chosen: the projection
    stays as it is.
    """
    sets = [tuple(heads) for heads in kept]
    if len(folds) < 2:
        return max(ridges)
    errors = sum(
        cross_validated_errors(folds, heads, head_dim=head_dim, ridges=ridges, towards=towards)
        for heads in sets
    )
    return ridges[int(np.argmin(errors))]


def cross_validated_errors(
    folds: Sequence[Moments],
    heads: Sequence[int],
    *,
    head_dim: int,
    ridges: Sequence[float] = (MIN_RIDGE,),
    towards: Matrix | None = None,
) -> Float[np.ndarray, " ridge"]:
    """With each ridge, the mean error on tokens of folds that a projection was not fitted to, fold by fold.

    Folds should hold whole samples: tokens of one sample know of each other.
    """
    columns, errors = columns_of(sorted(heads), head_dim), []
    for left_out, fold in enumerate(folds):
        others = reduce(add, (each for place, each in enumerate(folds) if place != left_out)).centred()
        errors += [
            others.projection(columns, ridge=ridge, towards=towards).total_error(fold) for ridge in ridges
        ]
    found = to_numpy(library(folds[0].gram).stack(errors)).reshape(len(folds), len(ridges))
    total: Float[np.ndarray, " ridge"] = found.sum(axis=0) / sum(fold.weight for fold in folds)
    return total
