"""Which coordinate no head attends to, and the positions that are left to hide its differences in."""

from dataclasses import dataclass
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from headcount.errors import InvalidInput
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.landscape import Landscape
from headcount.theory.evaluate import scores_and_values
from headcount.validation import expected

_PLACES = 64
_SHORTEST = 1e-6


@dataclass(frozen=True, eq=False)
class Segment:
    """{x^(i) + t v, begin ≤ t ≤ begin + reach}, and how fast the target at least changes along it."""

    minimiser: Float[np.ndarray, " token_dim"]
    direction: Float[np.ndarray, " token_dim"]
    begin: float
    reach: float
    smallest_slope: float

    @property
    def places(self) -> Float[np.ndarray, "place token_dim"]:
        """The minimiser and points along the segment: K_i, where heads are asked what they attend to."""
        offsets = np.concatenate([[0.0], self.begin + self.reach * np.linspace(0, 1, _PLACES)])
        return self.minimiser + offsets[:, None] * self.direction


def segments_of(task: RetrievalTask, landscape: Landscape) -> tuple[Segment, ...]:
    """One segment per coordinate, t from r/4 to r/2, inside balls that do not meet.

    The target along segment i is that of a sequence that takes every other minimum exactly.
    """
    points = landscape.minimisers
    for index, lowest in enumerate(landscape.lowest):
        if lowest.rival is not None:
            raise InvalidInput(
                f"coordinate {index} of {task.name} has no single minimiser on [0,1]^{task.token_dim}: "
                "the proof needs one for each"
            )
    distances = [float(np.linalg.norm(a - b)) for a, b in combinations(points, 2)]
    radius = min([*distances, 1.0]) / 2
    if radius < 1e-6:
        raise InvalidInput(
            f"two coordinates of {task.name} share their minimiser: the proof needs distinct ones"
        )
    while radius >= _SHORTEST:
        segments = tuple(_segment(task, landscape, index, radius) for index in range(task.dimension))
        if all(_lowest_at_home(task, segments, index) for index in range(task.dimension)):
            return segments
        radius /= 2
    raise InvalidInput(f"some coordinate of {task.name} is as low far from its minimiser as near it")


def _lowest_at_home(task: RetrievalTask, segments: tuple[Segment, ...], index: int) -> bool:
    """Whether f_i is lower all along its own segment than at any place of another's."""
    sign = 1 if task.extrema[index] == "min" else -1
    values = [
        sign * np.asarray(jax.vmap(task.coordinate_functions[index])(jnp.asarray(segment.places)))
        for segment in segments
    ]
    others = [value.min() for place, value in enumerate(values) if place != index]
    return not others or bool(values[index].max() < min(others))


def _segment(task: RetrievalTask, landscape: Landscape, index: int, radius: float) -> Segment:
    point = landscape.minimisers[index]
    room = np.concatenate([1 - point, point])
    widest = int(np.argmax(room))
    direction = np.zeros_like(point)
    direction[widest % len(point)] = 1.0 if widest < len(point) else -1.0
    takes_min = np.asarray(task.extrema) == "min"
    lowest = jnp.asarray(np.where(takes_min, landscape.values[:, 0], landscape.values[:, 1]))

    def along(offset: Array) -> Array:
        value = task.coordinate_functions[index](jnp.asarray(point) + offset * jnp.asarray(direction))
        return jnp.ravel(task.outer(lowest.at[index].set(value)))

    begin, reach = radius / 4, radius / 4  # to r/2, at most 1/4; the widest room is 1/2 or more
    offsets = jnp.linspace(begin, begin + reach, 16 * _PLACES)
    slopes = np.asarray(jax.jit(jax.vmap(jax.jacfwd(along)))(offsets))
    # The output that depends most on this coordinate; a change of sign along the way would hide it.
    steady = np.where(np.ptp(np.sign(slopes), axis=0) == 0, np.abs(slopes).min(axis=0), 0.0)
    if steady.max() < 1e-9:
        raise InvalidInput(f"the target of {task.name} does not rise along a segment of coordinate {index}")
    return Segment(point, direction, begin, reach, float(steady.max()))


@dataclass(frozen=True, eq=False)
class Layout:
    """A sequence with its free positions still to be filled, and the coordinate that hides in them."""

    unattended: int
    free: Int[np.ndarray, " free"]
    sequence: Float[np.ndarray, "length token_dim"]
    filler: Float[np.ndarray, " token_dim"]


def claims(
    model: Transformer, places: Float[np.ndarray, "place token_dim"], allowed: Bool[np.ndarray, " length"]
) -> list[tuple[int, int]]:
    """For each head in turn the (place, position) it attends to most, at a position not yet claimed."""
    sequences = np.broadcast_to(places[:, None], (len(places), len(allowed), places.shape[1]))
    with jax.enable_x64(True):
        scores, _ = scores_and_values(model, jnp.asarray(sequences))
    free = allowed.copy()
    claimed = []
    for head in np.moveaxis(np.asarray(scores), 1, 0):
        place, position = np.unravel_index(np.argmax(np.where(free, head, -np.inf)), head.shape)
        free[position] = False
        claimed.append((int(place), int(position)))
    return claimed


def layout_for(model: Transformer, task: RetrievalTask, length: int, segments: tuple[Segment, ...]) -> Layout:
    """Claimed places and other minimisers take their positions; the rest of the hidden set is free."""
    sets = [positions.mask(length) for positions in task.positions]
    places = np.concatenate([segment.places for segment in segments])
    owner = np.repeat(np.arange(len(segments)), [len(segment.places) for segment in segments])
    if length <= model.architecture.heads:
        raise expected("length", f"an integer > heads = {model.architecture.heads}", length)
    claimed = claims(model, places, np.ones(length, bool))
    attended = {int(owner[place]) for place, _ in claimed}
    unattended = [i for i in range(task.dimension) if i not in attended]
    if not unattended:
        raise InvalidInput(
            f"heads = {model.architecture.heads}: every coordinate is attended by some head, so there is "
            "none to hide a difference in"
        )
    hidden = max(unattended, key=lambda i: int(sets[i].sum()))
    filler = segments[(hidden + 1) % task.dimension].minimiser
    sequence = np.tile(filler, (length, 1))
    taken = np.zeros(length, bool)
    for place, position in claimed:
        sequence[position], taken[position] = places[place], True
    for i in range(task.dimension):
        if i != hidden:
            left = np.flatnonzero(sets[i] & ~taken)
            if not len(left):
                raise InvalidInput(f"length = {length}: no position is left for coordinate {i}")
            # A position outside the hidden coordinate's own set costs it none of its room.
            position = int(next((p for p in left if not sets[hidden][p]), left[0]))
            sequence[position], taken[position] = segments[i].minimiser, True
    free = np.flatnonzero(sets[hidden] & ~taken)
    if not len(free):
        raise InvalidInput(f"length = {length}: no position is left free; a longer sequence is needed")
    return Layout(hidden, free, sequence, filler)
