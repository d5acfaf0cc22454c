"""A task measured on the unit cube: where each f_i is lowest, how it curves there, what F_0 does there."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.search import Minimum, Points, VectorFunction, minima

Line = Callable[[Float[Array, ""]], Float[Array, "..."]]
Segments = Float[np.ndarray, "segments inputs"]
Pieces = Float[np.ndarray, "segments pieces orders outputs"]

_SEGMENTS = 16
_REACH = 0.1  # how far a segment through a given point goes to each side
_PIECES = 32
_HALVINGS = 20
_JUMP = 0.01  # of all the change along the segment; a smooth function keeps about 2^-20 of it


@dataclass(frozen=True)
class Jump:
    """|g(s + ds) − g(s)| that does not vanish with ds, for g the derivative of this order of one output."""

    output: int
    order: int
    size: float


def find_jump(function: VectorFunction, *, order: int, through: Points, seed: int) -> Jump | None:
    """The worst discontinuity, in a derivative up to `order`, along segments of the unit cube; or None.

    Across an interval a continuous derivative changes less and less as the interval is halved; across a
    kink it changes by the same amount however short the interval. So every piece of every segment is
    halved twenty times, always keeping the half with the larger change: what is left is a jump.

    >>> find_jump(lambda x: jnp.abs(x - 0.3), order=2, through=np.array([[0.5]]), seed=0).order
    1
    >>> find_jump(lambda x: (x - 0.3) ** 3, order=2, through=np.array([[0.5]]), seed=0) is None
    True
    """
    # An infinite derivative is beyond this measure, and passed over in silence.
    with jax.enable_x64(True), np.errstate(invalid="ignore"):
        starts, ends = _segments(through, seed)
        heights = _heights(function, order, starts, ends)
        outputs = jax.eval_shape(function, starts[0]).shape[0]
        grid = np.linspace(0.0, 1.0, _PIECES + 1)[:, None, None]
        left = np.broadcast_to(grid[:-1], (len(starts), _PIECES, order + 1, outputs))
        right = np.broadcast_to(grid[1:], left.shape)
        spreads = np.ptp(np.concatenate([heights(left), heights(right)], axis=1), axis=1)
        sizes = _change_after_halving(heights, left, right).max(axis=1)
    # What changes by no more than rounding has no jumps, whatever its share.
    measured = np.isfinite(sizes) & np.isfinite(spreads) & (spreads > 1e-6)
    shares = np.where(measured, sizes, 0.0) / np.where(measured, spreads, 1.0)
    worst = np.unravel_index(int(np.argmax(shares)), shares.shape)
    if shares[worst] < _JUMP:
        return None
    return Jump(output=int(worst[2]), order=int(worst[1]), size=float(sizes[worst]))


def _segments(through: Points, seed: int) -> tuple[Segments, Segments]:
    """Segments between random points of the cube, and a short one through each given point."""
    generator = np.random.default_rng(seed)
    starts, ends = generator.uniform(size=(2, _SEGMENTS, through.shape[1]))
    step = _REACH * generator.uniform(-1, 1, size=through.shape)
    near, far = np.clip(through - step, 0, 1), np.clip(through + step, 0, 1)
    return np.concatenate([starts, near]), np.concatenate([ends, far])


def _change_after_halving(heights: Callable[[Pieces], Pieces], left: Pieces, right: Pieces) -> Pieces:
    at_left, at_right = heights(left), heights(right)
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        at_middle = heights(middle)
        keep_right = np.abs(at_right - at_middle) > np.abs(at_middle - at_left)
        left, at_left = np.where(keep_right, (middle, at_middle), (left, at_left))
        right, at_right = np.where(keep_right, (right, at_right), (middle, at_middle))
    return np.abs(at_right - at_left)


def _heights(
    function: VectorFunction, order: int, starts: Segments, ends: Segments
) -> Callable[[Pieces], Pieces]:
    """Each derivative of each output along each segment, at a place of its own."""

    def at_own_places(start: Array, end: Array, places: Float[Array, "orders outputs"]) -> Array:
        derivatives = _with_derivatives(lambda s: function(start + s * (end - start)), order)
        everywhere = jax.vmap(derivatives)(places.ravel()).reshape(places.size, places.size)
        return jnp.diagonal(everywhere).reshape(places.shape)

    over_pieces = jax.vmap(at_own_places, in_axes=(None, None, 0))
    over_segments = jax.jit(jax.vmap(over_pieces))
    return lambda pieces: np.asarray(over_segments(starts, ends, pieces))


def _with_derivatives(line: Line, order: int) -> Line:
    """The line's value and its derivatives up to the order, stacked."""
    lines = [line]
    for _ in range(order):
        lines.append(_derivative(lines[-1]))
    return lambda s: jnp.stack([derivative(s) for derivative in lines])


def _derivative(line: Line) -> Line:
    return lambda s: jax.jvp(line, (s,), (jnp.ones_like(s),))[1]


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
