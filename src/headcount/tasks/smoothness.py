"""Kinks and jumps: smoothness cannot be proven from values, but it can be refuted."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.tasks.search import Points, VectorFunction

Line = Callable[[Float[Array, ""]], Float[Array, "..."]]
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
    # An infinite derivative is beyond this measure, so it is passed over in silence.
    with jax.enable_x64(True), np.errstate(invalid="ignore"):
        heights = _heights(function, order, *_segments(through, seed))
        left, right = _pieces(heights)
        ends = np.concatenate([heights(left), heights(right)], axis=1)
        spreads = ends.max(axis=1) - ends.min(axis=1)
        sizes = _change_after_halving(heights, left, right).max(axis=1)
    # What changes by no more than rounding has no jumps, whatever its share.
    measured = np.isfinite(sizes) & np.isfinite(spreads) & (spreads > 1e-6)
    shares = np.where(measured, sizes, 0.0) / np.where(measured, spreads, 1.0)
    worst = np.unravel_index(int(np.argmax(shares)), shares.shape)
    if shares[worst] < _JUMP:
        return None
    return Jump(output=int(worst[2]), order=int(worst[1]), size=float(sizes[worst]))
