"""The named tasks. All tokens of a sequence are independent; z stands for the coordinates zbar."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import ParamSpec

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.tasks.placement import place_directions, place_wells
from headcount.tasks.registry import register_task
from headcount.tasks.retrieval import OuterFunction, RetrievalTask, position_sets
from headcount.validation import check_integer


@dataclass(frozen=True)
class Projection:
    """f(x) = a·x: the extent of a token in one direction.

    >>> Projection((1.0, -2.0))(jnp.array([3.0, 1.0]))
    Array(1., dtype=float32)
    """

    direction: tuple[float, ...]

    def __call__(self, token: Float[Array, " token_dim"]) -> Float[Array, ""]:
        """f(token), in the precision of the token."""
        return jnp.sum(jnp.asarray(self.direction, token.dtype) * token)


@dataclass(frozen=True)
class Bowl:
    """f(x) = |x − w|² / max_{u in [0,1]^d} |u − w|²: how far a token is from a well w.

    The cube's farthest point from w is a corner, one coordinate at a time, so f fills [0, 1] exactly.
    Inside the cube w is the only minimiser, and the Hessian there is a positive multiple of the identity.

    >>> Bowl((0.5, 0.5))(jnp.array([0.5, 0.0]))
    Array(0.5, dtype=float32)
    """

    well: tuple[float, ...]

    def __call__(self, token: Float[Array, " token_dim"]) -> Float[Array, ""]:
        """f(token), in the precision of the token."""
        farthest = sum(max(entry, 1 - entry) ** 2 for entry in self.well)
        return jnp.sum((token - jnp.asarray(self.well, token.dtype)) ** 2) / farthest


Vectors = str | Sequence[Sequence[float]] | Float[np.ndarray, "dimension token_dim"]
PositionChoice = str | Sequence[int | str | Sequence[int]]

_Options = ParamSpec("_Options")


@register_task("max_sum")
def max_sum(
    *,
    dimension: int = 4,
    token_dim: int = 4,
    directions: Vectors = "random",
    smallest_angle: float = 30.0,
    seed: int = 0,
    positions: PositionChoice = "all",
) -> RetrievalTask:
    """Target y = sum_i max_t a_i·x(t), x(t) ~ N(0, I): the largest extent in each of D directions.

    Directions that nearly agree would share their maximising tokens and count as one, so random
    directions keep `smallest_angle` degrees apart.

    >>> task = max_sum(dimension=2, token_dim=2, directions=[[1.0, 0.0], [0.0, -1.0]])
    >>> task.target(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([1.], dtype=float32)
    """
    _check_sizes(dimension, token_dim)
    vectors = place_directions(
        directions, dimension=dimension, token_dim=token_dim, smallest_angle=smallest_angle, seed=seed
    )
    return RetrievalTask(
        name="max_sum",
        token_dim=token_dim,
        coordinate_functions=tuple(Projection(vector) for vector in vectors),
        positions=position_sets(positions),
        extrema=("max",),
        outer=jnp.sum,
        distribution="normal",
    )


@register_task("bowls")
def bowls(
    *,
    dimension: int = 4,
    token_dim: int = 4,
    wells: Vectors = "random",
    smallest_distance: float = 0.2,
    seed: int = 0,
    positions: PositionChoice = "all",
) -> RetrievalTask:
    """Target y = sum_i min_t c_i |x(t) − w_i|², x(t) uniform in [0,1]^d: how close tokens come to D wells.

    Each f_i has one minimiser, inside the cube, with a round Hessian: the simplest task for which
    every assumption about the target can hold.

    >>> task = bowls(dimension=2, token_dim=1, wells=[[0.0], [1.0]])
    >>> task.target(jnp.array([[0.5], [1.0]]))
    Array([0.25], dtype=float32)
    """
    _check_sizes(dimension, token_dim)
    points = place_wells(
        wells, dimension=dimension, token_dim=token_dim, smallest_distance=smallest_distance, seed=seed
    )
    return RetrievalTask(
        name="bowls",
        token_dim=token_dim,
        coordinate_functions=tuple(Bowl(point) for point in points),
        positions=position_sets(positions),
        outer=jnp.sum,
    )


@register_task("extremes")
def extremes(*, positions: PositionChoice = "all") -> RetrievalTask:
    """Target y = max_t x(t) + min_t x(t), x(t) uniform in [0,1]: the smallest task that needs two things.

    >>> extremes().target(jnp.array([[0.5], [0.25], [1.0]]))
    Array([1.25], dtype=float32)
    """
    return RetrievalTask(
        name="extremes",
        token_dim=1,
        coordinate_functions=(Projection((1.0,)), Projection((1.0,))),
        positions=position_sets(positions),
        extrema=("max", "min"),
        outer=jnp.sum,
    )


def product(z: Float[Array, " dimension"]) -> Float[Array, ""]:
    """F_0(z) = prod_i (1 + z_i): the effect of one coordinate depends on all others.

    >>> product(jnp.array([0.5, 1.0]))
    Array(3., dtype=float32)
    """
    return jnp.prod(1 + z)


def ratio(z: Float[Array, " dimension"]) -> Float[Array, ""]:
    """F_0(z) = (1 + z_1) / (1 + z_2 + ... + z_D): the first coordinate against the rest.

    >>> ratio(jnp.array([0.5, 1.0]))
    Array(0.75, dtype=float32)
    """
    return (1 + z[0]) / (1 + jnp.sum(z[1:]))


def soft_maximum(z: Float[Array, " dimension"]) -> Float[Array, ""]:
    """F_0(z) = log(mean_i e^{4 z_i}) / 4: close to the largest coordinate, and smooth.

    Four is soft enough for every partial derivative to stay well away from zero on the unit cube.

    >>> round(float(soft_maximum(jnp.array([0.5, 1.0]))), 3)
    0.858
    """
    return (jax.nn.logsumexp(4 * z) - jnp.log(jnp.asarray(z.size, z.dtype))) / 4


def several(z: Float[Array, " dimension"]) -> Float[Array, " output_dim"]:
    """F_0(z) = (sum_i z_i, prod_i (1 + z_i), (1 + z_1) / (1 + z_2 + ... + z_D)): outputs that share z.

    >>> several(jnp.array([0.5, 1.0]))
    Array([1.5 , 3.  , 0.75], dtype=float32)
    """
    return jnp.stack([jnp.sum(z), product(z), ratio(z)])


def _combined_by(
    outer: OuterFunction, name: str, like: Callable[_Options, RetrievalTask]
) -> Callable[_Options, RetrievalTask]:
    """The same coordinates under another F_0, as a named task with the same options."""

    @wraps(like)
    def task(*args: _Options.args, **options: _Options.kwargs) -> RetrievalTask:
        return replace(like(*args, **options), name=name, outer=outer)

    task.__name__ = task.__qualname__ = name
    task.__doc__ = outer.__doc__
    return register_task(name)(task)


bowls_product = _combined_by(product, "bowls_product", bowls)
bowls_ratio = _combined_by(ratio, "bowls_ratio", bowls)
bowls_soft_maximum = _combined_by(soft_maximum, "bowls_soft_maximum", bowls)
bowls_several = _combined_by(several, "bowls_several", bowls)


def _check_sizes(dimension: int, token_dim: int) -> None:
    check_integer("dimension", dimension, at_least=1)
    check_integer("token_dim", token_dim, at_least=1)
