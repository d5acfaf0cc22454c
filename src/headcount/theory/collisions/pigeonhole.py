"""The lower bound's proof as an algorithm: more candidate subsequences than a few heads can tell apart."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from headcount.errors import InvalidInput
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.landscape import survey
from headcount.theory.collisions.layout import Layout, Segment, layout_for, segments_of
from headcount.theory.evaluate import representations, scores_and_values, targets
from headcount.validation import check_integer, check_number, expected


class ClosePairs(NamedTuple):
    """Index pairs, the closest first, and their distances."""

    first: Int[np.ndarray, " pair"]
    second: Int[np.ndarray, " pair"]
    distance: Float[np.ndarray, " pair"]


def close_pairs(
    points: Float[np.ndarray, "point axis"],
    *,
    keep: int = 64,
    directions: int = 8,
    neighbours: int = 3,
    seed: int = 0,
) -> ClosePairs:
    """Up to `keep` of the closest pairs that share a neighbourhood along some direction.

    Two close points are neighbours along most directions; two neighbours along one direction need not be
    close. So the answer is an upper estimate of the smallest distance, at a cost of n log n in any dimension,
    where a tree of boxes would visit nearly every point.

    >>> points = np.array([[0.0, 0.0], [5.0, 5.0], [0.1, 0.0], [9.0, 0.0]])
    >>> found = close_pairs(points, keep=1)
    >>> found.first, found.second, found.distance
    (array([0]), array([2]), array([0.1]))
    """
    random = np.random.default_rng(seed)
    count = len(points)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for direction in random.normal(size=(directions, points.shape[1])):
        order = np.argsort(points @ direction)
        sorted_points = points[order]
        for step in range(1, min(neighbours, count - 1) + 1):
            squares = _squared_distances(sorted_points, step)
            nearest = np.argpartition(squares, min(keep, len(squares)) - 1)[:keep]
            pair = np.sort(np.stack([order[nearest], order[nearest + step]]), axis=0)
            found.append((pair[0], pair[1], np.sqrt(squares[nearest])))
    first, second, distance = (np.concatenate(part) for part in zip(*found, strict=True))
    _, unique = np.unique(first * count + second, return_index=True)
    best = unique[np.argsort(distance[unique], kind="stable")[:keep]]
    return ClosePairs(first[best], second[best], distance[best])


def _squared_distances(points: Float[np.ndarray, "point axis"], step: int) -> Float[np.ndarray, " pair"]:
    """|p_k − p_{k+step}|² for every k, a slice at a time so that differences stay in cache."""
    squares = np.empty(len(points) - step)
    for begin in range(0, len(squares), 1 << 14):
        end = min(begin + (1 << 14), len(squares))
        difference = points[begin + step : end + step] - points[begin:end]
        squares[begin:end] = np.einsum("ij,ij->i", difference, difference)
    return squares


CANDIDATES = 1_000_000
MAX_CANDIDATES = 10_000_000
ROUNDING = 1e-13  # representations nearer than this are equal in float64
GAP = 3  # targets of two candidates differ by this many epsilon at least
POINTS = 8
_FINALISTS = 64
_SLICE = 1 << 13
_HARDLY_TWICE = 1 << 62  # of so many possible candidates none is drawn twice, and more have no 64-bit number


@dataclass(frozen=True, eq=False)
class Pigeonhole:
    """Two sequences of one bin: their targets differ by 3 epsilon or more, their representations hardly.

    `unattended` is the coordinate that no head looks at; `free` counts the positions that were left to hide
    a difference in, `points` the places that each could take. Gaps are absolute.
    """

    epsilon: float
    unattended: int
    free: int
    points: int
    candidates: int
    first: Float[np.ndarray, "length token_dim"]
    second: Float[np.ndarray, "length token_dim"]
    target_gap: float
    representation_gap: float
    starts: tuple[Float[np.ndarray, "pair length token_dim"], Float[np.ndarray, "pair length token_dim"]]

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant that the readout would need to keep the two apart."""
        return self.target_gap / max(self.representation_gap, ROUNDING)


def pigeonhole(
    model: Transformer,
    task: RetrievalTask,
    length: int,
    *,
    epsilon: float | None = None,
    points: int = POINTS,
    candidates: int = CANDIDATES,
    seed: int = 0,
) -> Pigeonhole:
    """The closest pair among candidates that all need different outputs.

    Without an epsilon, the one that leaves each free position so many points to choose from.

    Around each minimiser lies a short segment. Every head in turn claims the one place, of all segments
    and all positions, that it attends to most; a coordinate whose segment no head has claimed is unattended.
    Its segment is cut into blocks, one for each free position, the nearest to the minimiser first; a
    candidate takes one point of each block. What the heads see of it is h masses and h averages.
    """
    if model.architecture.layers > 1:
        raise InvalidInput(
            f"layers: expected 1, as the proof's bins are for one layer, got {model.architecture.layers}"
        )
    if model.architecture.reader != "class token":
        raise expected(
            "reader", "a class token, which asks the same of every sequence", model.architecture.reader
        )
    check_integer("points", points, at_least=2)
    if epsilon is not None:
        check_number("epsilon", epsilon, above=0)
    candidates = check_integer("candidates", candidates, at_least=2, at_most=MAX_CANDIDATES)
    model = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
    with jax.enable_x64(True):
        segments = _segments(task, seed)
        layout = layout_for(model, task, length, segments)
        segment, blocks = segments[layout.unattended], len(layout.free)
        if epsilon is None:
            epsilon = segment.reach * segment.smallest_slope / (GAP * blocks * (points + 0.5))
        grid = _grid(segment, blocks, epsilon)
        chosen = _candidates(len(layout.free), grid.shape[1], candidates, seed)
        first, second = _closest(model, layout, grid, chosen, seed)
        both = [jnp.asarray(part) for part in (first, second)]
        represented = [np.asarray(representations(model, part)) for part in both]
        wanted = [np.asarray(targets(task, part)) for part in both]
    gaps = np.linalg.norm(represented[0] - represented[1], axis=1)
    target_gaps = np.abs(wanted[0] - wanted[1]).max(axis=1)
    apart = target_gaps >= GAP * epsilon * (1 - 1e-9)
    if not apart.any():
        raise InvalidInput(f"epsilon = {epsilon:g}: no two candidates have targets {GAP} epsilon apart")
    best = int(np.argmin(np.where(apart, gaps, np.inf)))
    return Pigeonhole(
        epsilon=epsilon,
        unattended=layout.unattended,
        free=len(layout.free),
        points=grid.shape[1],
        candidates=len(chosen),
        first=first[best],
        second=second[best],
        target_gap=float(target_gaps[best]),
        representation_gap=float(gaps[best]),
        starts=(first, second),
    )


@lru_cache(maxsize=64)
def _segments(task: RetrievalTask, seed: int) -> tuple[Segment, ...]:
    """A task is surveyed once, however many models are asked about it."""
    return segments_of(task, survey(task, seed=seed))


def _grid(segment: Segment, blocks: int, epsilon: float) -> Float[np.ndarray, "block point token_dim"]:
    """Points of the segment, block by block outwards, whose targets lie at least 3 epsilon apart."""
    step = GAP * epsilon / segment.smallest_slope
    points = int(segment.reach / (blocks * step))
    if points < 2:
        # Rounded down, so that the value in the message is valid itself.
        max_epsilon = 0.995 * segment.reach * segment.smallest_slope / (2 * GAP * blocks)
        raise InvalidInput(
            f"epsilon: expected a number <= {max_epsilon:.3g}, got {epsilon:g}: {blocks} blocks of the "
            f"segment have no room for two points each that are {GAP} epsilon apart"
        )
    offsets = segment.begin + step * np.arange(blocks * points)
    return (segment.minimiser + offsets[:, None] * segment.direction).reshape(blocks, points, -1)


def _candidates(free: int, points: int, max_count: int, seed: int) -> Int[np.ndarray, "candidate free"]:
    """All choices of one point a block where they are few enough, otherwise different ones at random."""
    if points**free <= max_count:
        return np.stack(np.unravel_index(np.arange(points**free), (points,) * free), axis=1)
    kind = np.min_scalar_type(points - 1)
    drawn = np.random.default_rng(seed).integers(0, points, size=(max_count, free), dtype=kind)
    drawn[0], drawn[1] = 0, points - 1  # two that differ, however few are drawn
    if points**free > _HARDLY_TWICE:
        return drawn
    number = np.zeros(max_count, np.int64)
    for block in drawn.T:
        number = number * points + block
    return drawn[np.unique(number, return_index=True)[1]]


def _closest(
    model: Transformer,
    layout: Layout,
    grid: Float[np.ndarray, "block point token_dim"],
    chosen: Int[np.ndarray, "candidate free"],
    seed: int,
) -> tuple[Float[np.ndarray, "pair length token_dim"], Float[np.ndarray, "pair length token_dim"]]:
    """The candidates with the nearest summaries, completed to sequences."""
    pairs = close_pairs(_summaries(model, layout, grid, chosen), keep=_FINALISTS, seed=seed)
    return _complete(layout, grid, chosen[pairs.first], chosen[pairs.second])


def _complete(
    layout: Layout,
    grid: Float[np.ndarray, "block point token_dim"],
    one: Int[np.ndarray, "*pair free"],
    other: Int[np.ndarray, "*pair free"],
) -> tuple[Float[np.ndarray, "*pair length token_dim"], Float[np.ndarray, "*pair length token_dim"]]:
    """Where two candidates agree both take the filler; where they differ each takes its own point.

    The first block that differs holds the minimum of both: blocks are ordered outwards from the minimiser.
    """
    points = grid[np.arange(len(grid)), np.stack([one, other])]
    sequences = np.tile(layout.sequence, (*points.shape[:-2], 1, 1))
    sequences[..., layout.free, :] = np.where((one != other)[..., None], points, layout.filler)
    return sequences[0], sequences[1]


def _summaries(
    model: Transformer,
    layout: Layout,
    grid: Float[np.ndarray, "block point token_dim"],
    chosen: Int[np.ndarray, "candidate free"],
) -> Float[np.ndarray, "candidate summary"]:
    """What each head sees of a candidate, n averages and a mass, in units of what they do to its output.

    A head's output is share · average + (1 − share) · rest, so an average counts by the candidate's share
    of the head's mass, and a logarithm of mass by share · (1 − share) · |average − rest|.
    """
    blocks, points, _ = grid.shape
    sequences = np.broadcast_to(layout.sequence, (points, *layout.sequence.shape)).copy()
    sequences[:, layout.free] = grid.transpose(1, 0, 2)
    scores, values = (np.asarray(part) for part in scores_and_values(model, jnp.asarray(sequences)))
    mass = np.exp(scores - scores.max(axis=(0, 2), keepdims=True))  # point, head, token
    moment = mass[:, :, None] * values  # point, head, feature, token
    heads, features = values.shape[1:3]
    rest = np.setdiff1d(np.arange(sequences.shape[1]), layout.free)
    rest_mass, rest_moment = mass[0][:, rest].sum(axis=-1), moment[0][..., rest].sum(axis=-1)
    # One row per (block, point): h masses, then h·n moments.
    table = np.concatenate(
        [mass[..., layout.free], moment[..., layout.free].reshape(points, -1, blocks)], axis=1
    ).transpose(2, 0, 1)
    sums = np.zeros((len(chosen), heads * (1 + features)))
    for begin in range(0, len(chosen), _SLICE):
        part = chosen[begin : begin + _SLICE]
        for block in range(blocks):
            sums[begin : begin + _SLICE] += table[block][part[:, block]]
    masses = np.maximum(sums[:, :heads], 1e-300)
    averages = sums[:, heads:].reshape(-1, heads, features) / masses[..., None]
    share = masses / (masses + rest_mass)
    beside = np.linalg.norm(averages - rest_moment / np.maximum(rest_mass, 1e-300)[:, None], axis=-1)
    typical_share, typical_beside = share.mean(axis=0), beside.mean(axis=0)
    logs = np.log(masses) * typical_share * (1 - typical_share) * typical_beside
    return np.concatenate([logs, (averages * typical_share[:, None]).reshape(len(chosen), -1)], axis=1)
