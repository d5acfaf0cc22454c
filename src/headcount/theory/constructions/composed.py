"""F_0 as a readout of the model class: one hidden layer, or more where F_0 is a product."""

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, exp, log1p, sqrt

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.theory.constructions.coordinates import Outer
from headcount.theory.constructions.shallow import (
    MAX_KNOTS,
    OutOfReach,
    Shallow,
    additive,
    along_axes,
    evaluated,
)
from headcount.theory.constructions.structure import is_additive
from headcount.theory.search import cloud

_KEPT = 0.5  # of the tolerance, for the sum inside; the rest is for the exponential


@dataclass(frozen=True, eq=False)
class Readout:
    """ReLU layers that stand for F_0 on [0,1]^D, how far off they are, and on how many points that rests."""

    weights: tuple[Float[np.ndarray, "_outputs _inputs"], ...]
    biases: tuple[Float[np.ndarray, "_outputs"], ...]
    error: float
    points: int

    @classmethod
    def of(cls, net: Shallow) -> "Readout":
        """One hidden layer."""
        return cls((net.inner, net.outer), (net.offset, net.constant), net.error, net.points)


def readout_of(outer: Outer, tolerance: float, *, seed: int = 0) -> Readout:
    """A product as the exponential of a sum of logarithms, by knots; anything else with one hidden layer.

    >>> from headcount.tasks.library import bowls_product
    >>> from headcount.theory.constructions.coordinates import coordinates_of
    >>> task = bowls_product(dimension=6, token_dim=2)
    >>> made = readout_of(Outer(task, coordinates_of(task)), 1e-2)
    >>> len(made.weights), made.error <= 1e-2
    (4, True)
    """
    if not outer.is_sum and outer.dimension > 2 and _is_product(outer, seed):
        return _product(outer, tolerance)
    return Readout.of(outer.network(tolerance, seed=seed))


def _logarithm(outer: Outer) -> Callable[[Array], Array]:
    def log_outer(z: Float[Array, "points dimension"]) -> Float[Array, "points output"]:
        return jnp.log(outer(z))

    return log_outer


def _is_product(outer: Outer, seed: int) -> bool:
    values = evaluated(outer, cloud(outer.dimension, seed, 1024))
    positive = values.shape[1] == 1 and values.min() > 0
    return bool(positive) and is_additive(_logarithm(outer), outer.dimension, seed=seed)


def _product(outer: Outer, tolerance: float) -> Readout:
    """The exponential of the sum, which lies between its values at the best and the worst ends of all axes.

    An error δ of the sum becomes one of e^high (e^δ − 1); between two knots a step s apart, the exponential
    leaves its chord by at most e^high s² / 8.
    """
    dimension, log_outer = outer.dimension, _logarithm(outer)
    looks = np.linspace(0, 1, 257)[:, None, None] * np.eye(dimension)
    origin = evaluated(log_outer, np.zeros((1, dimension)))[0]
    along = evaluated(log_outer, looks.reshape(-1, dimension)).reshape(257, dimension) - origin
    spare = 1e-6
    low = float(origin[0] + along.min(axis=0).sum()) - spare
    high = float(origin[0] + along.max(axis=0).sum()) + spare
    top = exp(high)
    inner = additive(log_outer, dimension, log1p(_KEPT * tolerance / top))
    rest = (1 - _KEPT) * tolerance
    steps = ceil((high - low) * sqrt(top / (8 * rest)))
    if steps > MAX_KNOTS:
        finest = top * ((high - low) / MAX_KNOTS) ** 2 / 8 / (1 - _KEPT)
        raise OutOfReach("tolerance", tolerance, finest, f"more than {MAX_KNOTS} knots would be needed")
    knots = np.linspace(0, 1, steps + 1)
    outside = along_axes(np.exp(low + knots * (high - low))[:, None], error=0.0)
    # The sum, moved to start at 0 and cut there, is one unit between the two sets of knots.
    scale = 1 / (high - low)
    return Readout(
        weights=(inner.inner, scale * inner.outer, outside.inner, outside.outer),
        biases=(inner.offset, scale * (inner.constant - low), outside.offset, outside.constant),
        error=top * (exp(inner.error) - 1) + top * ((high - low) / steps) ** 2 / 8,
        points=inner.points + len(looks),
    )
