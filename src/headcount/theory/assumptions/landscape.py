"""A task measured on the unit cube: where each f_i is lowest, how it curves there, what F_0 does there."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.smoothness import Jump, find_jump
from headcount.theory.search import Minimum, minima


@dataclass(frozen=True)
class Landscape:
    """Minimiser and Hessian of each f_i, its smallest and largest value, and grad F_0 at the minima.

    A coordinate that takes a max is followed as its mirror image 1 − f_i, which takes a min.
    """

    lowest: tuple[Minimum, ...]
    values: Float[np.ndarray, "dimension 2"]
    eigenvalues: Float[np.ndarray, "dimension token_dim"]
    partial_derivatives: Float[np.ndarray, "output_dim dimension"]
    coordinate_jump: Jump | None
    outer_jump: Jump | None

    @property
    def minimisers(self) -> Float[np.ndarray, "dimension token_dim"]:
        """x^(1), ..., x^(D), row by row."""
        return np.stack([lowest.point for lowest in self.lowest])


def survey(task: RetrievalTask, *, seed: int) -> Landscape:
    """Search, differentiate and look for kinks, all in float64.

    >>> from headcount.tasks.library import bowls
    >>> survey(bowls(dimension=1, token_dim=1, wells=[[0.5]]), seed=0).eigenvalues.round(6)
    array([[8.]])
    """

    def below(token: Float[Array, " token_dim"]) -> Float[Array, " dimension"]:
        pairs = zip(task.coordinate_functions, task.extrema, strict=True)
        return jnp.stack([f(token) if extremum == "min" else 1 - f(token) for f, extremum in pairs])

    def outer(z: Float[Array, " dimension"]) -> Float[Array, " output_dim"]:
        return jnp.ravel(task.outer(z))

    def both_ways(token: Float[Array, " token_dim"]) -> Float[Array, " twice_dimension"]:
        return jnp.concatenate([below(token), -below(token)])

    found = minima(both_ways, inputs=task.token_dim, seed=seed)
    lowest, highest = found[: task.dimension], found[task.dimension :]
    points = np.stack([minimum.point for minimum in lowest])
    bounds = np.asarray([[low.value, -high.value] for low, high in zip(lowest, highest, strict=True)])
    takes_min = np.asarray(task.extrema) == "min"
    values = np.where(takes_min[:, None], bounds, 1 - bounds[:, ::-1])
    corner = np.where(takes_min, values[:, 0], values[:, 1])
    with jax.enable_x64(True):
        hessians = np.asarray(jax.jit(jax.vmap(jax.hessian(below)))(points))
        partial_derivatives = np.asarray(jax.jit(jax.jacobian(outer))(corner))
    own_hessians = np.nan_to_num(hessians[np.arange(task.dimension), np.arange(task.dimension)])
    return Landscape(
        lowest=lowest,
        values=values,
        eigenvalues=np.linalg.eigvalsh(own_hessians),
        partial_derivatives=partial_derivatives,
        coordinate_jump=find_jump(below, order=2, through=points, seed=seed),
        outer_jump=find_jump(outer, order=1, through=corner[None], seed=seed),
    )
