"""Functions that depend on each other: the span of the f_i, and how key-value heads share it."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from headcount.theory.constructions.coordinates import Coordinate
from headcount.theory.constructions.stacked import Form
from headcount.theory.search import HEADROOM
from headcount.theory.shape import Shape

FORM_POINTS = 512
_DEPENDENT = 1e-8  # of the largest singular value: below this a direction is rounding


def values_of(coordinates: tuple[Coordinate, ...]) -> Float[np.ndarray, "point coordinate"]:
    """The psi_i at random tokens, less their means: dependent columns are dependent functions."""
    points = np.random.default_rng(0).uniform(size=(FORM_POINTS, coordinates[0].token_dim))
    with jax.enable_x64(True):
        values = [np.asarray(each.psi(jnp.asarray(points, jnp.float64)))[:, 0] for each in coordinates]
    return np.stack(values, axis=1)


def rank_of(values: Float[np.ndarray, "point coordinate"]) -> int:
    """The dimension of the span of the columns, modulo constants.

    >>> x = np.linspace(0, 1, 50)
    >>> rank_of(np.stack([x, 1 - x, x**2], axis=1))
    2
    """
    sizes = np.linalg.svd(values - values.mean(axis=0), compute_uv=False)
    return int((sizes > _DEPENDENT * max(sizes[0], 1e-300)).sum())


def deal(values: Float[np.ndarray, "point coordinate"], shape: Shape) -> list[list[int]] | None:
    """Coordinates dealt to key-value heads: no share larger than the query heads there, or of a span above n.

    Tried one coordinate after the other, going back where a share is full; equal empty shares are tried once.
    """
    dimension = values.shape[1]

    def place(shares: list[list[int]], coordinate: int) -> list[list[int]] | None:
        if coordinate == dimension:
            return shares
        empty_tried = False
        for share in shares:
            if len(share) == shape.group_size or (not share and empty_tried):
                continue
            empty_tried = empty_tried or not share
            share.append(coordinate)
            if rank_of(values[:, share]) <= shape.head_dim and (found := place(shares, coordinate + 1)):
                return found
            share.pop()
        return None

    return place([[] for _ in range(shape.kv_heads)], 0)


def forms_over(values: Float[np.ndarray, "point coordinate"], shares: list[list[int]]) -> tuple[Form, ...]:
    """Every coordinate over a basis of its share: the first ones that are independent."""
    forms: dict[int, Form] = {}
    for share in shares:
        basis: list[int] = []
        for coordinate in share:
            if rank_of(values[:, [*basis, coordinate]]) > len(basis):
                basis.append(coordinate)
                forms[coordinate] = Form({coordinate: 1.0}, 0.0)
        for coordinate in set(share) - set(basis):
            table = np.column_stack([values[:, basis], np.ones(len(values))])
            *weights, constant = solution = np.linalg.lstsq(table, values[:, coordinate], rcond=None)[0]
            error = HEADROOM * float(np.abs(table @ solution - values[:, coordinate]).max())
            combined = dict(zip(basis, map(float, weights), strict=True))
            forms[coordinate] = Form(combined, float(constant), error)
    return tuple(forms[coordinate] for coordinate in range(values.shape[1]))
