"""Which coordinate no head attends to, and the positions that are left to hide its differences in."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from headcount.errors import InvalidInput
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.collisions.segments import Segment
from headcount.theory.evaluate import scores_and_values
from headcount.validation import expected


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
