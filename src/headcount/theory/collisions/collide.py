"""Two sequences, one representation, two targets: what a model with too few heads cannot tell apart."""

from dataclasses import dataclass
from functools import partial
from math import ceil, sqrt
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from headcount.errors import InvalidInput
from headcount.models.positions import encoder_inputs
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.checks import check_assumptions
from headcount.theory.collisions.pigeonhole import (
    CANDIDATES,
    MAX_CANDIDATES,
    ROUNDING,
    Pigeonhole,
    pigeonhole,
)
from headcount.theory.collisions.refine import SAME, Pairs, Region, Units, refine, units_of
from headcount.theory.evaluate import Target, representations, targets
from headcount.validation import check_integer, check_number

MIN_TOLERANCE = 1e-12  # a little above what float64 rounds to
_SAMPLES = 1024
_ROUNDING = 1e-9
ONE_LIPSCHITZ = ("relu", "tanh")


@dataclass(frozen=True)
class Lemma:
    """A readout with one hidden layer of p units and entries up to 1 moves by at most p·sqrt(E)·|v − w|.

    `broken` lists what keeps the lemma from a model; if nothing does, `width` is the p that a pair demands.
    """

    broken: tuple[str, ...]
    width: int | None
    parameters: int | None

    @property
    def applies(self) -> bool:
        """Whether every clause of Assumption 1 was found to hold."""
        return not self.broken

    def __str__(self) -> str:
        if self.broken:
            return f"the lemma does not apply: {'; '.join(self.broken)}"
        if self.width is None:
            return "the lemma applies, and no pair was found that asks anything of the readout"
        return f"the lemma asks for {self.width:,} hidden units or more, {self.parameters:,} parameters of F"


def lemma_for(
    model: Transformer, task: RetrievalTask, length: int, *, target_gap: float, representation_gap: float
) -> Lemma:
    """Assumption 1, checked on the weights and on samples, and the width that two sequences demand."""
    broken = broken_clauses(model, task, length)
    if broken or not target_gap > 0:
        return Lemma(broken, None, None)
    inputs = model.architecture.width
    width = target_gap / (max(representation_gap, 1e-300) * sqrt(inputs))
    outputs = model.architecture.output_dim
    units = ceil(min(width, 1e15))
    return Lemma((), units, units * (inputs + 1 + outputs) + outputs)


def broken_clauses(model: Transformer, task: RetrievalTask, length: int) -> tuple[str, ...]:
    """The clauses of Assumption 1 that a model breaks, each with its number."""
    readout = model.readout
    broken = []
    if len(readout.weights) != 2:
        broken.append(f"F has {len(readout.weights) - 1} hidden layers, not 1")
    if readout.activation not in ONE_LIPSCHITZ:
        broken.append(f"{readout.activation} is steeper than 1")
    attention = model.attention, [layer.attention for layer in model.token_layers]
    entries = {"F": (*readout.weights, *readout.biases), "the attention": jax.tree.leaves(attention)}
    for name, arrays in entries.items():
        largest = max(float(np.abs(np.asarray(array)).max()) for array in arrays)
        if largest > 1 + _ROUNDING:
            broken.append(f"the largest entry of {name} is {largest:.3g}, above 1")
    norm = _largest_encoding(model, task, length)
    if norm > 1 + _ROUNDING:
        broken.append(f"|P(x, t)| reaches {norm:.3g}, above 1")
    return tuple(broken)


def _largest_encoding(model: Transformer, task: RetrievalTask, length: int) -> float:
    with jax.enable_x64(True):
        x = task.inputs(jax.random.key(0), _SAMPLES, length)
        if task.distribution == "uniform":
            x = jnp.concatenate([x, jnp.round(x)])
        return float(jnp.max(_encoding_norms(model, x)))


@eqx.filter_jit
def _encoding_norms(
    model: Transformer, x: Float[Array, "sequence length token_dim"]
) -> Float[Array, "sequence length"]:
    def norms(sequence: Array) -> Array:
        return jnp.linalg.norm(model.encoder(encoder_inputs(sequence, model.architecture)), axis=0)

    return jax.vmap(norms)(x)


_POOL = 2048


@dataclass(frozen=True, eq=False)
class Collision:
    """A pair whose representations agree to `representation_gap` of their spread, the largest that was found.

    `target_gap` is in standard deviations of the target, `absolute_gap` in its own units, of several outputs
    the largest each; `lipschitz` is what a readout would need to keep the two apart. Where representations
    agree to rounding that only says how fine the arithmetic is, so `lipschitz_at_least` takes them to be as
    far apart as a pair may be to count, the tolerance of the search. `typical_gap` is the median over all
    pairs that were brought together, `agreed` of `tried`. If none was, it is one sequence twice, and every
    gap is 0.
    """

    target_gap: float
    absolute_gap: float
    representation_gap: float
    lipschitz: float
    lipschitz_at_least: float
    typical_gap: float
    agreed: int
    tried: int
    first: Float[np.ndarray, "length token_dim"]
    second: Float[np.ndarray, "length token_dim"]

    def to_json(self) -> dict[str, Any]:
        """The numbers and both sequences."""
        return {**vars(self), "first": self.first.tolist(), "second": self.second.tolist()}


@dataclass(frozen=True, eq=False)
class Collisions:
    """What was found for one model: like the data, anywhere, and by the proof's own bins.

    `binned` is None where the proof has nothing to bin; `why_not_binned` then says why. `assumption_2` says
    whether the proof's assumption about the task was found to hold; without it a pair is still a pair, but
    no lower bound follows.
    """

    heads: int
    layers: int
    length: int
    tolerance: float
    inside: Collision
    anywhere: Collision
    binned: Pigeonhole | None
    why_not_binned: str
    lemma: Lemma
    assumption_2: str

    @property
    def statistic(self) -> float:
        """The largest target gap at one representation, both sequences like the data."""
        return self.inside.target_gap

    def to_json(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        binned = None
        if self.binned is not None:
            numbers = ("epsilon", "unattended", "free", "points", "candidates", "target_gap")
            names = (*numbers, "representation_gap", "lipschitz")
            binned = {name: getattr(self.binned, name) for name in names}
            binned |= {"first": self.binned.first.tolist(), "second": self.binned.second.tolist()}
        return {
            "heads": self.heads,
            "layers": self.layers,
            "length": self.length,
            "tolerance": self.tolerance,
            "inside": self.inside.to_json(),
            "anywhere": self.anywhere.to_json(),
            "binned": binned,
            "why_not_binned": self.why_not_binned,
            "lemma": str(self.lemma),
            "assumption_2": self.assumption_2,
        }


def collide(
    model: Transformer,
    task: RetrievalTask,
    *,
    length: int,
    pairs: int = 64,
    steps: int = 200,
    candidates: int = CANDIDATES,
    epsilon: float | None = None,
    tolerance: float = SAME,
    seed: int = 0,
) -> Collisions:
    """The largest difference of targets that a model cannot see, searched for in two ways.

    Two representations count as one if they differ by at most `tolerance` times the spread of the data's.
    With several layers they are what the reader holds after the last; the proof's bins are for one layer.

    Refinement starts from pairs of the data (half of them those with far targets and near representations)
    and, for sequences anywhere, also from what was found inside, from what the proof's bins found and from
    repeated tokens.
    """
    length = check_integer("length", length, at_least=1)
    pairs = check_integer("pairs", pairs, at_least=2, at_most=_POOL)
    check_integer("steps", steps, at_least=1)
    check_integer("seed", seed, at_least=0, at_most=2**63 - 1)
    check_integer("candidates", candidates, at_least=2, at_most=MAX_CANDIDATES)
    if epsilon is not None:
        check_number("epsilon", epsilon, above=0)
    check_number("tolerance", tolerance, at_least=MIN_TOLERANCE)
    if task.token_dim != model.architecture.token_dim or task.output_dim != model.architecture.output_dim:
        raise InvalidInput(
            f"token_dim = {model.architecture.token_dim}, output_dim = {model.architecture.output_dim} of "
            f"the model: {task.name} has {task.token_dim} and {task.output_dim}"
        )
    model = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
    with jax.enable_x64(True):
        x = np.asarray(task.inputs(jax.random.key(seed), _POOL, length))
    units = units_of(model, task, x)
    if not units.representation > 0 or not (units.target > 0).all():
        raise InvalidInput("the representation or the target is the same for every sequence of the data")
    binned, why_not = None, ""
    try:
        binned = pigeonhole(model, task, length, epsilon=epsilon, candidates=candidates, seed=seed)
    except InvalidInput as error:
        why_not = str(error)
    starts = pairs_of_data(model, task, x, units, pairs, seed)
    search = partial(refine, model, task, steps=steps, seed=seed, tolerance=tolerance)
    inside = _best(search(Region.of_data(task, length), units, starts), task, units, tolerance)
    wide = _from_anywhere(x, starts, inside, binned, seed)
    anywhere = _best(search(Region.everywhere(task), units, wide), task, units, tolerance)
    found = [
        (pair.absolute_gap, max(pair.representation_gap, ROUNDING) * units.representation)
        for pair in (inside, anywhere)
    ]
    if binned is not None:
        found.append((binned.target_gap, max(binned.representation_gap, ROUNDING)))
    target_gap, representation_gap = max(found, key=lambda gaps: gaps[0] / gaps[1])
    return Collisions(
        heads=model.architecture.heads,
        layers=model.architecture.layers,
        length=length,
        tolerance=tolerance,
        inside=inside,
        anywhere=anywhere,
        binned=binned,
        why_not_binned=why_not,
        assumption_2=_assumption_2(task, length, seed),
        lemma=lemma_for(model, task, length, target_gap=target_gap, representation_gap=representation_gap),
    )


def _assumption_2(task: RetrievalTask, length: int, seed: int) -> str:
    found = check_assumptions(task, length=length, seed=seed)
    lacking = [finding for finding in found.select("2") if finding.verdict != "holds"]
    return "; ".join(f"{finding.clause} {finding.verdict}" for finding in lacking) or "holds"


Starts = tuple[Float[np.ndarray, "pair length token_dim"], Float[np.ndarray, "pair length token_dim"]]


def pairs_of_data(
    model: Transformer, task: Target, x: np.ndarray, units: Units, pairs: int, seed: int
) -> Starts:
    """Half of the pairs by the largest ratio of target gap to representation gap, half at random."""
    with jax.enable_x64(True):
        r = np.asarray(representations(model, jnp.asarray(x))) / units.representation
        y = np.asarray(targets(task, jnp.asarray(x))) / units.target
    squares = (r**2).sum(axis=1)
    distance = np.sqrt(np.maximum(squares[:, None] + squares - 2 * r @ r.T, 0))
    gap = np.abs(y[:, None] - y).max(axis=-1)
    ratio = np.where(gap > 0.2, gap / (distance + 1e-3), 0)
    ratio[np.tril_indices(len(x))] = -1  # every pair once, and no sequence beside itself
    best = np.argpartition(ratio.ravel(), -(pairs // 2))[-(pairs // 2) :]
    a, b = np.unravel_index(best, ratio.shape)
    random = np.random.default_rng(seed).permutation(len(x))[: 2 * (pairs - pairs // 2)].reshape(2, -1)
    return x[np.concatenate([a, random[0]])], x[np.concatenate([b, random[1]])]


def _from_anywhere(
    x: np.ndarray, starts: Starts, inside: Collision, binned: Pigeonhole | None, seed: int
) -> Starts:
    """The data's pairs; the best inside; pairs of nearly one repeated token; pairs that shared a bin."""
    random = np.random.default_rng(seed)
    count = max(2, len(starts[0]) // 4)
    tokens = x[random.integers(len(x), size=(2, count)), random.integers(x.shape[1], size=(2, count))]
    moved = 0.05 * x.std() * random.normal(size=(2, count, *x.shape[1:]))
    repeated = tokens[:, :, None] + moved
    parts = [np.stack(starts), np.stack([inside.first, inside.second])[:, None], repeated]
    if binned is not None:
        parts.append(np.stack([part[:count] for part in binned.starts]))
    both = np.concatenate(parts, axis=1)
    return both[0], both[1]


def _best(found: Pairs, task: RetrievalTask, units: Units, tolerance: float = SAME) -> Collision:
    agreed = np.isfinite(found.representation_gap)
    best = int(np.argmax(found.target_gap))
    relative = float(found.representation_gap[best]) if agreed.any() else 0.0
    with jax.enable_x64(True):
        y = np.asarray(targets(task, jnp.stack([found.first[best], found.second[best]])))
    absolute = float(np.abs(y[0] - y[1]).max())
    return Collision(
        target_gap=float(found.target_gap[best]),
        absolute_gap=absolute,
        representation_gap=relative,
        lipschitz=absolute / (max(relative, ROUNDING) * units.representation),
        lipschitz_at_least=absolute / (tolerance * units.representation),
        typical_gap=float(np.median(found.target_gap[agreed])) if agreed.any() else 0.0,
        agreed=int(agreed.sum()),
        tried=len(agreed),
        first=found.first[best],
        second=found.second[best],
    )
