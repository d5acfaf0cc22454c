"""Two sequences that a member cannot tell apart, though one with heads to spare puts out different numbers.

With fewer heads than the task retrieves there are many such pairs and the gap between them is wide; from D on
it is what the member still gets wrong. Sequences are moved, so tokens must be points of a space: codes of
words are not. Probabilities of labels stand still at 0 and at 1 nearly everywhere: there gaps say little.
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from headcount.data.arrays import DataSet
from headcount.models.transformer import Transformer
from headcount.theory.collisions.collide import pairs_of_data
from headcount.theory.collisions.refine import refine, units_of

PAIRS, STEPS = 16, 100
SEQUENCES = 512
INSIDE = (0.01, 0.99)  # quantiles of every feature: where sequences are like the data
MIN_VALUES = 50  # of a feature that is a number and no code


@dataclass(frozen=True)
class Witness:
    """How far apart the targets of pairs are that a member of so many heads cannot tell apart.

    Gaps are in standard deviations of the target; `agreed` of `tried` pairs could be brought together.
    """

    heads: int
    typical_gap: float
    largest_gap: float
    agreed: int
    tried: int


class Wide(eqx.Module):
    """A member with heads to spare, in the place of the task."""

    model: Transformer

    def target(self, x: Float[Array, "*sequence token token_dim"]) -> Float[Array, "*sequence output"]:
        """What it puts out, for one sequence or for many."""
        return self.model(x) if x.ndim == 2 else jax.vmap(self.model)(x)


class Box(NamedTuple):
    """Sequences whose every feature lies between two ends."""

    low: Float[np.ndarray, " token_dim"]
    high: Float[np.ndarray, " token_dim"]

    def contains(self, x: Float[Array, "token token_dim"]) -> Bool[Array, ""]:
        """Whether a sequence lies in the box."""
        return jnp.all((x >= self.low) & (x <= self.high))

    def project(self, x: Float[Array, "token token_dim"]) -> Float[Array, "token token_dim"]:
        """The nearest sequence inside."""
        return jnp.clip(x, self.low, self.high)


def can_be_moved(data: DataSet) -> bool:
    """Whether pairs can be looked for: numbers to learn, points for tokens, and all of them there."""
    values = min(len(np.unique(data.x[:500, :, feature])) for feature in range(data.token_dim))
    return not data.classes and data.mask is None and values >= MIN_VALUES


def collisions(
    member: Transformer, wide: Transformer, x: Float[np.ndarray, "sample token token_dim"]
) -> Witness:
    """Pairs of these sequences moved until the member cannot tell them apart; on a CPU, in float64."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        few, many = (
            jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model) for model in (member, wide)
        )
        target, sequences = Wide(many), np.asarray(x[:SEQUENCES], np.float64)
        box = Box(*np.quantile(sequences, INSIDE, axis=(0, 1)))
        units = units_of(few, target, sequences)
        starts = pairs_of_data(few, target, sequences, units, PAIRS, seed=0)
        found = refine(few, target, box, units, starts, steps=STEPS, seed=0)
    agreed = np.isfinite(found.representation_gap)
    gaps = found.target_gap[agreed]
    typical, largest = (float(np.median(gaps)), float(gaps.max())) if len(gaps) else (0.0, 0.0)
    return Witness(member.architecture.heads, typical, largest, int(agreed.sum()), len(agreed))
