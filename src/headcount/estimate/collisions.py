"""Two sequences that a member cannot distinguish, though the outputs of a wide member differ.

With fewer heads than D there are many such pairs, and the gap between their outputs is wide; from D on it is
about the error of the member. Sequences are moved, so tokens must be points of a space: codes of words are
not. Probabilities of labels are 0 or 1 nearly everywhere, so their gaps say little.
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
INSIDE = (0.01, 0.99)  # quantiles of every feature: sequences between them are like the data
MIN_VALUES = 50  # of a feature that is a number, not a code


@dataclass(frozen=True)
class CollisionGaps:
    """How far apart the targets of pairs are that a member with this many heads cannot distinguish.

    Gaps are in standard deviations of the target; `agreed` of `tried` pairs could be made to collide.
    """

    heads: int
    typical_gap: float
    largest_gap: float
    agreed: int
    tried: int


class Wide(eqx.Module):
    """A model with more heads than needed, in place of the task."""

    model: Transformer

    def target(self, x: Float[Array, "*sequence token token_dim"]) -> Float[Array, "*sequence output"]:
        """Its output for one sequence or for many."""
        return self.model(x) if x.ndim == 2 else jax.vmap(self.model)(x)


class Box(NamedTuple):
    """Sequences whose features all lie between two bounds."""

    low: Float[np.ndarray, " token_dim"]
    high: Float[np.ndarray, " token_dim"]

    def contains(self, x: Float[Array, "token token_dim"]) -> Bool[Array, ""]:
        """Whether a sequence lies in the box."""
        return jnp.all((x >= self.low) & (x <= self.high))

    def project(self, x: Float[Array, "token token_dim"]) -> Float[Array, "token token_dim"]:
        """The nearest sequence inside."""
        return jnp.clip(x, self.low, self.high)


def can_be_moved(data: DataSet) -> bool:
    """Whether pairs can be searched for: numeric targets, tokens that are points, and no padding."""
    values = min(len(np.unique(data.x[:500, :, feature])) for feature in range(data.token_dim))
    return not data.classes and data.mask is None and values >= MIN_VALUES


def collision_gaps(
    member: Transformer, wide: Transformer, x: Float[np.ndarray, "sample token token_dim"]
) -> CollisionGaps:
    """Pairs of these sequences, moved until the member cannot distinguish them; on a CPU, in float64."""
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
    return CollisionGaps(member.architecture.heads, typical, largest, int(agreed.sum()), len(agreed))
