import doctest
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist

from headcount.errors import InvalidInput
from headcount.models import Architecture, Transformer
from headcount.models.network import Network
from headcount.tasks import RetrievalTask, bowls, bowls_several, extremes, max_sum
from headcount.tasks.coordinates import Bowl, Projection
from headcount.tasks.landscape import survey
from headcount.theory.collide import _POOL, Collisions, _best, _from_data, collide
from headcount.theory.colliding import pigeonhole as pigeonhole_module
from headcount.theory.colliding.closest import close_pairs
from headcount.theory.colliding.lemma import broken_clauses, lemma_for
from headcount.theory.colliding.pigeonhole import (
    GAP,
    Layout,
    Pigeonhole,
    _candidates,
    _complete,
    _grid,
    _layout,
    _summaries,
    claims,
    pigeonhole,
)
from headcount.theory.colliding.refine import SAME, Pairs, Units, refine, units_of
from headcount.theory.colliding.region import Region
from headcount.theory.colliding.segments import Segment, segments_of
from headcount.theory.evaluate import representations
from headcount.theory.specialise import specialise

DOCUMENT = Path(__file__).parents[2] / "docs" / "theory" / "collide.md"
LENGTH = 8
quickly = settings(max_examples=50, deadline=None)

# The search for minimisers takes most of the time of the bins, and finds the same again.
landscape_of = cache(survey)


@pytest.fixture(autouse=True)
def _one_search_per_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pigeonhole_module, "survey", landscape_of)


@pytest.fixture(autouse=True)
def _compiled_quickly() -> Iterator[None]:
    """Programs that run once for a moment need no more than to be right."""
    before = jax.config.values["jax_disable_most_optimizations"]
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def distance(token: jax.Array) -> jax.Array:
    """To (1, 0), where the gradient is not a number."""
    return jnp.linalg.norm(token - jnp.asarray([1.0, 0.0]))


NORMAL = RetrievalTask(
    name="nearest and farthest",
    token_dim=2,
    coordinate_functions=(distance, distance),
    extrema=("min", "max"),
    outer=jnp.sum,
    distribution="normal",
)
BOWLS = bowls(dimension=3, token_dim=2)
SEVERAL = bowls_several(dimension=2, token_dim=1, wells=[[0.3], [0.8]], positions=["even", "all"])
EXTREMES = extremes()
TASKS = {
    "bowls": BOWLS,
    "wells at the edge": bowls(dimension=2, token_dim=2, wells=[[0.0, 0.0], [0.95, 0.5]]),
    "several outputs, even positions": SEVERAL,
    "extremes": EXTREMES,
    "linear": max_sum(dimension=2, token_dim=2, directions=[[1.0, -0.5], [0.3, 1.0]]),
}
by_task = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS.keys())


def segments(task: RetrievalTask) -> tuple[Segment, ...]:
    with jax.enable_x64(True):
        return segments_of(task, landscape_of(task, seed=0))


def small(task: RetrievalTask, *, seed: int = 0, **options: Any) -> Transformer:
    sizes = {"heads": 1, "head_dim": 3, "encoder_hidden": (6,), "readout_hidden": (5,)}
    shape = Architecture(token_dim=task.token_dim, output_dim=task.output_dim, **(sizes | options))
    return Transformer.initialise(shape, seed=seed)


def double(model: Transformer) -> Transformer:
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)


def coordinate(function: object, x: np.ndarray) -> np.ndarray:
    """Each f_i of every token, by its formula."""
    if isinstance(function, Bowl):
        farthest = sum(max(entry, 1 - entry) ** 2 for entry in function.well)
        return ((x - function.well) ** 2).sum(axis=1) / farthest
    if isinstance(function, Projection):
        return x @ function.direction
    assert function is distance
    return np.sqrt(((x - [1, 0]) ** 2).sum(axis=1))


def targets(task: RetrievalTask, x: np.ndarray) -> np.ndarray:
    """F_0 of the extrema, in plain NumPy."""
    z = []
    for function, extremum, positions in zip(
        task.coordinate_functions, task.extrema, task.positions, strict=True
    ):
        values = coordinate(function, x[positions.indices(len(x))])
        z.append(values.min() if extremum == "min" else values.max())
    ratio = (1 + z[0]) / (1 + sum(z[1:]))
    several = [sum(z), np.prod(1 + np.array(z)), ratio]
    return np.array(several if task.name == "bowls_several" else [sum(z)])


def scores_and_values(model: Transformer, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """β (W_Q,i c0)·(W_K,i P(x(t), t)) and W_V,i P(x(t), t) for one layer, in plain NumPy."""
    shape = model.architecture
    activation: Callable[[np.ndarray], np.ndarray] = {
        "relu": lambda rows: np.maximum(rows, 0),
        "tanh": np.tanh,
    }[shape.encoder_activation]
    rows = np.concatenate([x, np.eye(len(x), shape.position_features)], axis=1)
    layers = list(zip(model.encoder.weights, model.encoder.biases, strict=True))
    for weight, bias in layers[:-1]:
        rows = activation(rows @ weight.T + bias)
    tokens = rows @ layers[-1][0].T + layers[-1][1]
    group = np.arange(shape.heads) // shape.group_size
    query = model.attention.query @ model.class_token
    keys = tokens @ model.attention.key[group].transpose(0, 2, 1)
    values = tokens @ model.attention.value[group].transpose(0, 2, 1)
    return shape.logit_scale * np.einsum("hn,htn->ht", query, keys), values.transpose(0, 2, 1)


def softmax(scores: np.ndarray) -> np.ndarray:
    mass = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return mass / mass.sum(axis=-1, keepdims=True)


def representation(model: Transformer, x: np.ndarray) -> np.ndarray:
    scores, values = scores_and_values(model, x)
    averages = np.einsum("ht,hnt->hn", softmax(scores), values)
    return model.class_token + np.einsum("ehn,hn->e", model.attention.output, averages)


def data(task: RetrievalTask, count: int, *, length: int = LENGTH, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    draw = random.uniform if task.distribution == "uniform" else random.normal
    return draw(size=(count, length, task.token_dim))


# The model's own view of its scores and values.


@pytest.mark.parametrize(
    "options",
    [
        {"heads": 2},
        {"heads": 4, "kv_heads": 2, "beta": 3.0},
        {"heads": 3, "kv_heads": 1, "scale_logits": False, "encoder_activation": "tanh"},
        {"heads": 2, "positions": "one_hot", "length": 9},
        {"heads": 2, "encoder_hidden": ()},
        {"heads": 2, "layers": 2, "layer_norm": True},
    ],
    ids=str,
)
def test_scores_and_values_are_all_that_a_token_does(options: dict[str, Any]) -> None:
    model, x = double(small(BOWLS, seed=3, **options)), data(BOWLS, 1, seed=4)[0]
    with jax.enable_x64(True):
        asked = jax.jit(
            lambda x: (model.scores_and_values(x), model.attention_weights(x), model.representation(x))
        )
        (scores, values), weights, represented = jax.tree.map(np.asarray, asked(x))
    np.testing.assert_allclose(softmax(scores), weights, rtol=1e-12)
    averages = np.einsum("ht,hnt->hn", softmax(scores), values)
    read = model.class_token + np.einsum("ehn,hn->e", model.attention.output, averages)
    np.testing.assert_allclose(read, represented, rtol=1e-12, atol=1e-14)
    if model.architecture.layers == 1:
        for fast, plain in zip((scores, values), scores_and_values(model, x), strict=True):
            np.testing.assert_allclose(fast, plain, rtol=1e-12, atol=1e-14)


# Close pairs.


def all_distances(points: np.ndarray) -> dict[tuple[int, int], float]:
    return dict(zip(itertools.combinations(range(len(points)), 2), pdist(points).tolist(), strict=True))


coordinates = st.floats(-10, 10, allow_subnormal=False)
clouds = st.tuples(st.integers(2, 30), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=coordinates)
)


@quickly
@given(clouds, st.integers(1, 40), st.integers(0, 3))
def test_close_pairs_are_true_pairs_with_true_distances(points: np.ndarray, keep: int, seed: int) -> None:
    found = close_pairs(points, keep=keep, seed=seed)
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert 1 <= len(pairs) <= keep
    assert len(set(pairs)) == len(pairs)
    assert all(a < b for a, b in pairs)
    assert (np.diff(found.distance) >= 0).all()
    distances = all_distances(points)
    np.testing.assert_allclose(found.distance, [distances[pair] for pair in pairs], rtol=1e-12, atol=1e-12)


@quickly
@given(st.integers(2, 4), st.integers(1, 5), st.integers(0, 1000))
def test_of_a_few_points_all_pairs_are_looked_at(count: int, axes: int, seed: int) -> None:
    points = np.random.default_rng(seed).normal(size=(count, axes))
    found = close_pairs(points, keep=100, seed=seed)
    np.testing.assert_allclose(found.distance, sorted(all_distances(points).values()), rtol=1e-12)
    nearest = close_pairs(points, keep=1, seed=seed)
    assert (nearest.first[0], nearest.second[0]) == min(
        all_distances(points), key=all_distances(points).__getitem__
    )


@pytest.mark.parametrize(("axes", "apart"), [(1, 1e-9), (2, 1e-7), (8, 1e-3), (20, 1e-2)])
def test_the_planted_pair_is_found(axes: int, apart: float) -> None:
    for seed in range(10):
        random = np.random.default_rng(seed)
        points = random.uniform(size=(600, axes))
        one, other = sorted(random.choice(600, 2, replace=False).tolist())
        points[other] = points[one] + apart / math.sqrt(axes)
        found = close_pairs(points, keep=5, seed=seed)
        assert (found.first[0], found.second[0]) == (one, other)
        assert found.distance[0] == pytest.approx(pdist(points).min(), rel=1e-9)


def test_duplicates_are_at_distance_zero() -> None:
    points = np.repeat(np.random.default_rng(0).normal(size=(5, 3)), 2, axis=0)
    found = close_pairs(points, keep=5)
    assert found.distance.tolist() == [0.0] * 5
    assert sorted(zip(found.first, found.second, strict=True)) == [(k, k + 1) for k in range(0, 10, 2)]


# Segments.


@by_task
def test_segments_lie_in_the_cube_and_in_balls_that_do_not_meet(task: RetrievalTask) -> None:
    found = segments(task)
    for segment in found:
        places = segment.places
        assert ((places >= 0) & (places <= 1)).all()
        np.testing.assert_array_equal(places[0], segment.minimiser)
        assert np.linalg.norm(segment.direction) == 1
        assert segment.reach > 0
        assert segment.begin == segment.reach  # from r/4 to r/2
    for one, other in itertools.combinations(found, 2):
        apart = np.linalg.norm(one.minimiser - other.minimiser)
        assert 4 * one.begin + 4 * other.begin <= apart + 1e-12


@by_task
def test_the_target_changes_along_a_segment_at_least_as_fast_as_promised(task: RetrievalTask) -> None:
    found = segments(task)
    for index, segment in enumerate(found):
        offsets = segment.begin + segment.reach * np.linspace(0, 1, 301)
        points = segment.minimiser + offsets[:, None] * segment.direction
        heights = coordinate(task.coordinate_functions[index], points)
        # Two copies of each, so that even positions have one.
        rest = np.repeat([other.minimiser for other in found if other is not segment], 2, axis=0)
        values = np.stack([targets(task, np.concatenate([[point, point], rest])) for point in points])
        rises = np.diff(heights) if task.extrema[index] == "min" else -np.diff(heights)
        assert (rises > 0).all()
        slopes = np.abs(np.diff(values, axis=0)) / np.diff(offsets)[:, None]
        assert segment.smallest_slope > 0
        assert slopes.min(axis=0).max() >= segment.smallest_slope * (1 - 1e-6)
        assert slopes.min(axis=0).max() <= segment.smallest_slope * 1.1


# Claims.


def positional(task: RetrievalTask, *, length: int = LENGTH, **options: Any) -> Transformer:
    return double(small(task, positions="one_hot", length=length, beta=3.0, **options))


@pytest.mark.parametrize("seed", range(4))
def test_each_head_in_turn_claims_its_true_favourite(seed: int) -> None:
    model = positional(BOWLS, heads=3, seed=seed)
    places = np.random.default_rng(seed).uniform(size=(11, 2))
    unused = list(range(LENGTH))
    expected = []
    for head in range(3):
        scores = {
            (place, position): scores_and_values(model, np.tile(places[place], (LENGTH, 1)))[0][
                head, position
            ]
            for place in range(len(places))
            for position in unused
        }
        favourite = max(scores, key=scores.__getitem__)
        expected.append(favourite)
        unused.remove(favourite[1])
    assert claims(model, places, np.ones(LENGTH, bool)) == expected


def late_looker() -> Transformer:
    """One head, logit t + x(t): it likes late positions best, and there large tokens."""
    model = double(
        small(
            EXTREMES,
            head_dim=1,
            encoder_hidden=(),
            positions="one_hot",
            length=LENGTH,
            scale_logits=False,
        )
    )
    one = np.ones((1, 1, 1))
    return eqx.tree_at(
        lambda made: (made.encoder.weights, made.class_token, made.attention.query, made.attention.key),
        model,
        ((np.array([[1.0, *range(LENGTH)]]),), np.ones(1), one, one),
    )


def test_a_claim_over_the_own_positions_only_would_be_outdone_elsewhere() -> None:
    model, places = late_looker(), np.linspace(0, 1, 5)[:, None]
    own = np.arange(LENGTH) < LENGTH // 2

    def logit(place: int, position: int) -> float:
        return float(scores_and_values(model, np.tile(places[place], (LENGTH, 1)))[0][0, position])

    def largest_elsewhere(claimed: tuple[int, int]) -> float:
        """What any of the tokens gets at any other position."""
        others = [position for position in range(LENGTH) if position != claimed[1]]
        return max(logit(place, position) for place in range(len(places)) for position in others)

    (restricted,) = claims(model, places, own)
    assert restricted == (4, 3)
    assert largest_elsewhere(restricted) > logit(*restricted)
    (anywhere,) = claims(model, places, np.ones(LENGTH, bool))
    assert anywhere == (4, 7)
    assert largest_elsewhere(anywhere) <= logit(*anywhere)


def test_the_bins_let_heads_claim_positions_outside_the_hidden_coordinates_own() -> None:
    task = SEVERAL
    model = double(
        small(task, head_dim=1, encoder_hidden=(), positions="one_hot", length=LENGTH, scale_logits=False)
    )
    last = np.array([[0.1, *(10.0 * (np.arange(LENGTH) == LENGTH - 1))]])
    one = np.ones((1, 1, 1))
    model = eqx.tree_at(
        lambda made: (made.encoder.weights, made.class_token, made.attention.query, made.attention.key),
        model,
        ((last,), np.ones(1), one, one),
    )
    layout = layout_of(model, task)
    scores, _ = scores_and_values(model, layout.sequence)
    assert scores[0].argmax() == LENGTH - 1
    assert LENGTH - 1 not in layout.free


# Bins.


def layout_of(model: Transformer, task: RetrievalTask) -> Layout:
    with jax.enable_x64(True):
        return _layout(model, task, LENGTH, segments(task))


@cache
def binned() -> tuple[Transformer, Pigeonhole]:
    model = positional(BOWLS, seed=1)
    return model, pigeonhole(model, BOWLS, LENGTH, candidates=3000)


@pytest.mark.parametrize(
    ("free", "points", "most"), [(1, 8, 2), (1, 8, 3), (2, 3, 8), (3, 4, 50), (1, 3, 2), (40, 8, 2)]
)
def test_candidates_are_distinct_and_never_fewer_than_two(free: int, points: int, most: int) -> None:
    for seed in range(20):
        chosen = _candidates(free, points, most, seed)
        assert 2 <= len(chosen) <= most
        assert len({tuple(row) for row in chosen.tolist()}) == len(chosen)
        assert chosen.min() >= 0
        assert chosen.max() < points


@pytest.mark.parametrize(("free", "points"), [(1, 2), (3, 4), (5, 2), (2, 8)])
def test_few_candidates_are_enumerated(free: int, points: int) -> None:
    chosen = _candidates(free, points, points**free, seed=0)
    assert {tuple(row) for row in chosen.tolist()} == set(itertools.product(range(points), repeat=free))


def test_points_of_the_grid_go_outwards_and_their_targets_are_3_epsilon_apart() -> None:
    segment, epsilon = segments(BOWLS)[0], 1e-4
    grid = _grid(segment, 3, epsilon)
    offsets = ((grid - segment.minimiser) @ segment.direction).ravel()
    assert grid.shape[0] == 3
    assert offsets[0] == pytest.approx(segment.begin)
    assert (np.diff(offsets) > 0).all()
    assert offsets[-1] <= segment.begin + segment.reach
    rest = [other.minimiser for other in segments(BOWLS)[1:]]
    values = [targets(BOWLS, np.stack([point, *rest]))[0] for point in grid.reshape(-1, 2)]
    assert np.abs(np.subtract.outer(values, values))[~np.eye(len(values), dtype=bool)].min() >= 3 * epsilon


def test_the_pair_of_a_bin_is_what_it_says() -> None:
    model, found = binned()
    layout = layout_of(model, BOWLS)
    assert (found.unattended, found.free) == (layout.unattended, len(layout.free))
    assert found.candidates <= 3000
    differ = np.flatnonzero((found.first != found.second).any(axis=1))
    assert set(differ) <= set(layout.free)
    for sequence in (found.first, found.second):
        assert ((sequence >= 0) & (sequence <= 1)).all()
        rest = np.setdiff1d(np.arange(LENGTH), layout.free)
        np.testing.assert_array_equal(sequence[rest], layout.sequence[rest])
    apart = np.abs(targets(BOWLS, found.first) - targets(BOWLS, found.second)).max()
    assert found.target_gap == pytest.approx(apart, rel=1e-9)
    assert apart >= GAP * found.epsilon * (1 - 1e-9)
    gap = np.linalg.norm(representation(model, found.first) - representation(model, found.second))
    assert found.representation_gap == pytest.approx(gap, rel=1e-6, abs=1e-14)
    assert found.lipschitz == found.target_gap / found.representation_gap


def test_every_other_coordinate_has_its_minimum_and_the_hidden_one_none_but_the_free() -> None:
    model = positional(BOWLS, heads=2, seed=1)
    layout = layout_of(model, BOWLS)
    lowest = [coordinate(BOWLS.coordinate_functions[i], layout.sequence).min() for i in range(3)]
    assert [low < 1e-12 for low in lowest] == [i != layout.unattended for i in range(3)]
    assert len(layout.free) == LENGTH - 2 - 3 + 1
    segment = segments(BOWLS)[layout.unattended]
    end = segment.minimiser + (segment.begin + segment.reach) * segment.direction
    assert coordinate(BOWLS.coordinate_functions[layout.unattended], end[None]) < lowest[layout.unattended]


def test_summaries_are_those_of_the_sequences_one_by_one() -> None:
    model = positional(BOWLS, heads=2, seed=1)
    layout = layout_of(model, BOWLS)
    blocks = len(layout.free)
    grid = _grid(segments(BOWLS)[layout.unattended], blocks, 1e-4)
    chosen = _candidates(blocks, grid.shape[1], 30, seed=0)
    rest = np.setdiff1d(np.arange(LENGTH), layout.free)
    masses, averages, shares, besides = [], [], [], []
    for candidate in chosen:
        sequence = layout.sequence.copy()
        for block, position in enumerate(layout.free):
            sequence[position] = grid[block, candidate[block]]
        scores, values = scores_and_values(model, sequence)
        mass = np.exp(scores)
        average, beside = (
            [(m[part] * v[:, part]).sum(axis=1) / m[part].sum() for m, v in zip(mass, values, strict=True)]
            for part in (layout.free, rest)
        )
        masses.append(mass[:, layout.free].sum(axis=1))
        averages.append(average)
        shares.append(mass[:, layout.free].sum(axis=1) / mass.sum(axis=1))
        besides.append(np.linalg.norm(np.subtract(average, beside), axis=1))
    share, beside = np.mean(shares, axis=0), np.mean(besides, axis=0)
    logs = np.log(masses) * share * (1 - share) * beside
    weighted = (np.array(averages) * share[:, None]).reshape(len(chosen), -1)
    with jax.enable_x64(True):
        fast = _summaries(model, layout, grid, chosen)
    # A logarithm of mass is known up to a constant of its head, which no distance sees.
    np.testing.assert_allclose(np.diff(fast[:, :2], axis=0), np.diff(logs, axis=0), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(fast[:, 2:], weighted, rtol=1e-11)


def even_looker(task: RetrievalTask) -> Transformer:
    """Every token gets the same attention and is encoded linearly: only the sum of tokens is seen."""
    model = double(small(task, encoder_hidden=()))
    return eqx.tree_at(lambda made: made.attention.query, model, np.zeros_like(model.attention.query))


def test_equal_summaries_are_equal_representations() -> None:
    model = even_looker(BOWLS)
    layout = layout_of(model, BOWLS)
    blocks = len(layout.free)
    grid = _grid(segments(BOWLS)[layout.unattended], blocks, 1e-4)
    chosen = np.zeros((2, blocks), int)
    chosen[0, :2], chosen[1, :2] = (0, 2), (2, 0)
    with jax.enable_x64(True):
        one, other = _summaries(model, layout, grid, chosen)
    np.testing.assert_allclose(one, other, atol=1e-14)
    first, second = _complete(layout, grid, *chosen)
    np.testing.assert_allclose(representation(model, first), representation(model, second), atol=1e-14)
    assert np.abs(targets(BOWLS, first) - targets(BOWLS, second)).max() >= GAP * 1e-4
    found = pigeonhole(model, BOWLS, LENGTH, candidates=500)
    assert found.representation_gap < 1e-14
    assert found.target_gap >= GAP * found.epsilon


def test_the_first_block_that_differs_decides_the_target_and_not_the_last() -> None:
    model, found = binned()
    layout, segment = layout_of(model, BOWLS), segments(BOWLS)[found.unattended]
    blocks = len(layout.free)
    grid = _grid(segment, blocks, found.epsilon)
    well = partial(coordinate, BOWLS.coordinate_functions[layout.unattended])
    random = np.random.default_rng(0)
    for _ in range(20):
        one, other = random.integers(grid.shape[1], size=(2, blocks))
        differing = np.flatnonzero(one != other)
        if len(differing) < 2:
            continue
        first, second = _complete(layout, grid, one, other)
        apart = float(np.abs(targets(BOWLS, first) - targets(BOWLS, second))[0])
        by_block = [np.ptp(well(grid[b, [one[b], other[b]]])) for b in differing]
        assert apart == pytest.approx(by_block[0], rel=1e-9)
        assert apart != pytest.approx(by_block[-1], rel=1e-3)
        agreeing = layout.free[one == other]
        np.testing.assert_array_equal(first[agreeing], np.tile(layout.filler, (len(agreeing), 1)))


def test_of_all_candidates_the_pair_is_nearly_the_closest() -> None:
    model = positional(BOWLS, seed=1)
    found = pigeonhole(model, BOWLS, LENGTH, points=2, candidates=32)
    assert found.candidates == 32 == 2**found.free
    layout = layout_of(model, BOWLS)
    grid = _grid(segments(BOWLS)[found.unattended], found.free, found.epsilon)
    gaps = [
        np.linalg.norm(np.subtract(*(representation(model, part) for part in _complete(layout, grid, a, b))))
        for a, b in itertools.combinations(_candidates(found.free, 2, 32, seed=0), 2)
    ]
    assert min(gaps) * (1 - 1e-9) <= found.representation_gap <= 2 * min(gaps)


def test_the_largest_epsilon_that_a_refusal_names_is_allowed() -> None:
    model, _ = binned()
    with pytest.raises(InvalidInput, match=r"epsilon = 0.5: .* allowed is up to") as refusal:
        pigeonhole(model, BOWLS, LENGTH, epsilon=0.5)
    named = float(re.findall(r"up to (\S+)$", str(refusal.value))[0])
    found = pigeonhole(model, BOWLS, LENGTH, epsilon=named, candidates=100)
    assert found.points == 2
    assert found.target_gap >= GAP * named
    with pytest.raises(InvalidInput):
        pigeonhole(model, BOWLS, LENGTH, epsilon=1.02 * named)


def flat() -> RetrievalTask:
    """The first f is lowest along a whole edge of the square."""
    return RetrievalTask(
        name="flat",
        token_dim=2,
        coordinate_functions=(lambda x: x[0], lambda x: jnp.sum((x - 0.5) ** 2)),
        outer=jnp.sum,
    )


def shared() -> RetrievalTask:
    """Two coordinates with one minimiser."""
    return RetrievalTask(
        name="shared",
        token_dim=1,
        coordinate_functions=(lambda x: (x[0] - 0.5) ** 2, lambda x: (x[0] - 0.5) ** 2 / 2),
        outer=jnp.sum,
    )


def hidden_from_the_target() -> RetrievalTask:
    """The target does not depend on its first coordinate, nor on the others."""
    return RetrievalTask(
        name="hidden",
        token_dim=1,
        coordinate_functions=(lambda x: x[0] ** 2, lambda x: (x[0] - 1) ** 2),
        outer=lambda z: z[1],
    )


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: pigeonhole(small(BOWLS, layers=2), BOWLS, 8), "layers = 2: .* allowed is 1"),
        (
            lambda: pigeonhole(specialise(EXTREMES, length=8, epsilon=0.1).model, EXTREMES, 8),
            "heads = 2: every coordinate is attended",
        ),
        (
            lambda: pigeonhole(
                double(small(max_sum(dimension=1, token_dim=1))), bowls(dimension=1, token_dim=1), 8
            ),
            "heads = 1: every coordinate is attended",
        ),
        (lambda: pigeonhole(double(small(BOWLS, heads=3)), BOWLS, 3), "length = 3: allowed is above heads"),
        (lambda: pigeonhole(double(small(BOWLS)), BOWLS, 2), "length = 2: no position is left"),
        (lambda: pigeonhole(double(small(BOWLS)), BOWLS, 3), "length = 3: no position is left free"),
        (
            lambda: pigeonhole(double(small(flat())), flat(), 8),
            "coordinate 0 of flat has no single minimiser",
        ),
        (lambda: pigeonhole(double(small(shared())), shared(), 8), "two coordinates of shared share"),
        (
            lambda: pigeonhole(double(small(hidden_from_the_target())), hidden_from_the_target(), 8),
            "target of hidden does not rise along a segment of coordinate 0",
        ),
        (lambda: pigeonhole(small(BOWLS), BOWLS, 8, candidates=1), "candidates = 1: allowed is"),
        (lambda: pigeonhole(small(BOWLS), BOWLS, 8, points=1), "points = 1: allowed is"),
        (lambda: pigeonhole(small(BOWLS), BOWLS, 8, epsilon=0.0), "epsilon = 0.0: allowed is"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_the_proof_has_nothing_to_bin_one_line_says_why(
    attempt: Callable[[], object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


# The region of the data.

REGIONS = {
    "normal": (NORMAL, 8),
    "normal, long": (max_sum(dimension=2, token_dim=2), 100),
    "normal, one token": (max_sum(dimension=2, token_dim=2), 1),
    "uniform numbers": (EXTREMES, 8),
    "uniform, long tokens": (bowls(dimension=2, token_dim=12), 3),
}
by_region = pytest.mark.parametrize("name", REGIONS)


def plainly_inside(region: Region, x: np.ndarray) -> bool:
    norms = [math.sqrt(sum(entry**2 for entry in token)) for token in x]
    if not all(region.norms[0] - 1e-9 <= norm <= region.norms[1] + 1e-9 for norm in norms):
        return False
    if region.distribution == "uniform":
        return all(-1e-9 <= entry <= 1 + 1e-9 for entry in x.ravel())
    likelihood = -sum(norm**2 for norm in norms) / 2
    return region.likelihoods[0] - 1e-9 <= likelihood <= region.likelihoods[1] + 1e-9


def far_out(task: RetrievalTask, length: int) -> np.ndarray:
    """Sequences too large, too small, lopsided, at the origin, at the corners of the cube."""
    random = np.random.default_rng(0)
    scales = np.geomspace(1e-6, 1e6, 60)[:, None, None]
    around = scales * random.normal(size=(60, length, task.token_dim))
    lopsided = around.copy()
    lopsided[:, 0] *= 1000
    corners = random.integers(0, 2, size=(60, length, task.token_dim)).astype(float)
    nearly = data(task, 60, length=length) * random.uniform(0.7, 1.4, size=(60, 1, 1))
    return np.concatenate([around, lopsided, corners, nearly, np.zeros_like(corners[:1])])


class Asked(NamedTuple):
    """A region's answers about a thousand sequences of the data, and about some that are far out."""

    region: Region
    x: np.ndarray
    inside: np.ndarray
    projected: np.ndarray
    projected_inside: np.ndarray


@cache
def asked(name: str) -> Asked:
    task, length = REGIONS[name]
    region = Region.of_data(task, length)
    return ask(region, np.concatenate([data(task, 1000, length=length, seed=7), far_out(task, length)]))


def ask(region: Region, x: np.ndarray) -> Asked:
    def answer(sequence: jax.Array) -> tuple[jax.Array, ...]:
        projected = region.project(sequence)
        return region.contains(sequence), projected, region.contains(projected)

    with jax.enable_x64(True):
        return Asked(region, x, *(np.asarray(part) for part in jax.jit(jax.vmap(answer))(x)))


@by_region
def test_projecting_lands_inside_from_anywhere(name: str) -> None:
    assert not asked(name).inside[1000:].all()
    assert asked(name).projected_inside.all()


@by_region
def test_projecting_leaves_what_is_inside(name: str) -> None:
    _, x, inside, projected, _ = asked(name)
    np.testing.assert_allclose(projected[inside], x[inside], rtol=1e-12)


@by_region
def test_the_region_is_the_plain_one_between_percentiles_of_the_data(name: str) -> None:
    region, x, inside, projected, projected_inside = asked(name)
    assert inside.tolist() == [plainly_inside(region, each) for each in x]
    assert projected_inside.tolist() == [plainly_inside(region, each) for each in projected]
    norms = np.linalg.norm(x[:1000], axis=-1)
    assert ((region.norms[0] <= norms) & (norms <= region.norms[1])).mean() == pytest.approx(0.98, abs=0.01)
    if region.distribution == "normal":
        low, high = region.likelihoods
        likelihood = -(x[:1000] ** 2).sum(axis=(1, 2)) / 2
        assert ((low <= likelihood) & (likelihood <= high)).mean() == pytest.approx(0.98, abs=0.015)


@pytest.mark.parametrize("task", [BOWLS, NORMAL], ids=["uniform", "normal"])
def test_everywhere_is_the_support_of_the_sampler(task: RetrievalTask) -> None:
    _, x, _, projected, projected_inside = ask(Region.everywhere(task), far_out(task, LENGTH))
    assert projected_inside.all()
    np.testing.assert_array_equal(projected, np.clip(x, 0, 1) if task.distribution == "uniform" else x)


# Refinement.


def check_pairs(model: Transformer, task: RetrievalTask, region: Region, units: Units, found: Pairs) -> None:
    """Everything that a refined pair promises, recomputed in NumPy."""
    for first, second, target_gap, relative in zip(*found, strict=True):
        assert plainly_inside(region, first)
        assert plainly_inside(region, second)
        apart = np.abs((targets(task, first) - targets(task, second)) / units.target).max()
        assert target_gap == pytest.approx(apart, rel=1e-9, abs=1e-12)
        assert target_gap >= 0
        gap = np.linalg.norm(representation(model, first) - representation(model, second))
        if np.isfinite(relative):
            assert relative <= SAME
            assert relative == pytest.approx(gap / units.representation, rel=1e-4, abs=1e-12)
        else:
            np.testing.assert_array_equal(first, second)


def test_units_are_plain_deviations() -> None:
    model, x = double(small(SEVERAL)), data(SEVERAL, 40)
    units = units_of(model, SEVERAL, x)
    seen = np.stack([representation(model, each) for each in x])
    spread = np.sqrt(np.mean([np.sum((each - seen.mean(axis=0)) ** 2) for each in seen]))
    assert units.representation == pytest.approx(spread, rel=1e-12)
    wanted = np.stack([targets(SEVERAL, each) for each in x])
    np.testing.assert_allclose(units.target, wanted.std(axis=0), rtol=1e-12)


def test_refined_pairs_of_normal_tokens_keep_their_promises_at_kinks_and_ties() -> None:
    task, region = NORMAL, asked("normal").region
    model, x = double(small(task, seed=2)), data(task, 24)
    x[:4, 0] = (1.0, 0.0)  # the kink
    x[2:6, 1] = x[2:6, 2]  # a tie
    x[6] = 0.0
    units = units_of(model, task, data(task, 200))
    found = refine(model, task, region, units, (x[:12], x[12:]), steps=25, seed=0)
    check_pairs(model, task, region, units, found)
    assert np.isfinite(found.representation_gap).all()  # no pair was lost at a kink
    assert found.target_gap.max() > 1


@pytest.mark.parametrize("task", [bowls(dimension=2, token_dim=2), EXTREMES], ids=["bowls", "extremes"])
def test_a_head_for_each_coordinate_leaves_no_collision_beyond_its_error(task: RetrievalTask) -> None:
    made = specialise(task, length=LENGTH, epsilon=1e-2)
    assert made.bound.total <= 1e-2
    x = data(task, 24)
    first, second = np.concatenate([x[:12], x[:12]]), np.concatenate([x[12:], x[:12]])
    # The last twelve begin as one: what is no extremum may move, and so may, in step, what is.
    second[12:, ::2] += 0.01 * np.random.default_rng(0).normal(size=second[12:, ::2].shape)
    units = units_of(made.model, task, data(task, 200))
    found = refine(made.model, task, Region.everywhere(task), units, (first, second), steps=60, seed=0)
    check_pairs(made.model, task, Region.everywhere(task), units, found)
    assert np.isfinite(found.representation_gap).sum() >= 6
    assert (found.target_gap * units.target[0]).max() <= 2 * made.epsilon


# The lemma.


@st.composite
def readouts(draw: st.DrawFn) -> Network:
    inputs, hidden, many = draw(st.integers(1, 6)), draw(st.integers(1, 8)), draw(st.integers(1, 3))
    entries = partial(arrays, np.float64, elements=st.floats(-1, 1))
    return Network(
        (draw(entries((hidden, inputs))), draw(entries((many, hidden)))),
        (draw(entries(hidden)), draw(entries(many))),
        draw(st.sampled_from(["relu", "tanh"])),
    )


@quickly
@given(readouts(), st.data())
def test_a_readout_moves_by_at_most_p_root_e_times_the_distance(
    readout: Network, more: st.DataObject
) -> None:
    hidden, inputs = readout.weights[0].shape
    one, other = (more.draw(arrays(np.float64, inputs, elements=st.floats(-5, 5))) for _ in range(2))
    activation = np.tanh if readout.activation == "tanh" else partial(np.maximum, 0)
    (inner, outer), (offset, _) = readout.weights, readout.biases
    moved = np.abs(outer @ (activation(inner @ one + offset) - activation(inner @ other + offset))).max()
    assert moved <= hidden * math.sqrt(inputs) * np.linalg.norm(one - other) + 1e-12


def test_the_lemma_cannot_promise_less() -> None:
    readout = Network((np.ones((5, 4)), np.ones((1, 5))), (np.zeros(5), np.zeros(1)), "relu")
    moved = float(readout(np.full(4, 2.0))[0] - readout(np.full(4, 1.0))[0])
    assert moved == 5 * math.sqrt(4) * np.linalg.norm(np.ones(4))


def bounded(**options: Any) -> Transformer:
    model = double(small(BOWLS, **({"readout_activation": "relu"} | options)))
    return jax.tree.map(lambda leaf: 0.5 * leaf, model)


BROKEN: dict[str, Callable[[], Transformer]] = {
    "F has 2 hidden layers, not 1": lambda: bounded(readout_hidden=(5, 4)),
    "F has 0 hidden layers, not 1": lambda: bounded(readout_hidden=()),
    "gelu is steeper than 1": lambda: bounded(readout_activation="gelu"),
    "silu is steeper than 1": lambda: bounded(readout_activation="silu"),
    "the largest entry of F is 1.5, above 1": lambda: replaced(
        lambda model: model.readout.weights[1], lambda array: np.full_like(array, -1.5)
    ),
    "the largest entry of F is 1.25, above 1": lambda: replaced(
        lambda model: model.readout.biases[0], lambda array: np.full_like(array, 1.25)
    ),
    "the largest entry of the attention is 2, above 1": lambda: replaced(
        lambda model: model.attention.key, lambda array: np.full_like(array, -2.0)
    ),
    "|P(x, t)| reaches 5.2, above 1": lambda: replaced(
        lambda model: model.encoder.biases[-1], lambda array: np.full_like(array, 3.0)
    ),
}


def replaced(where: Callable[[Transformer], Any], change: Callable[[np.ndarray], np.ndarray]) -> Transformer:
    model = bounded()
    return eqx.tree_at(where, model, change(where(model)))


@pytest.mark.parametrize(("words", "made"), BROKEN.items(), ids=BROKEN.keys())
def test_each_broken_clause_is_named_alone(words: str, made: Callable[[], Transformer]) -> None:
    lemma = lemma_for(made(), BOWLS, LENGTH, target_gap=1.0, representation_gap=1e-6)
    assert not lemma.applies
    assert (lemma.width, lemma.parameters) == (None, None)
    (clause,) = lemma.broken
    assert str(lemma) == f"the lemma does not apply: {clause}"
    if words.startswith("|P"):
        assert clause.startswith("|P(x, t)| reaches ")
        assert 4 < float(clause.split()[3].rstrip(",")) < 6
    else:
        assert clause == words


def test_an_encoding_that_is_long_at_a_corner_only_is_noticed() -> None:
    model = bounded(encoder_hidden=())
    weights = np.zeros_like(model.encoder.weights[0])
    weights[0] = 0.55  # |P| = 0.55 (x_1 + x_2), above 1 where both are above 0.9
    model = eqx.tree_at(
        lambda made: (made.encoder.weights, made.encoder.biases), model, ((weights,), (np.zeros(3),))
    )
    assert broken_clauses(model, BOWLS, LENGTH) == ("|P(x, t)| reaches 1.1, above 1",)


@pytest.mark.parametrize(("target_gap", "gap"), [(1.0, 1e-3), (0.2, 3e-7), (1e-3, 1.0)])
def test_the_width_is_that_of_the_lemma(target_gap: float, gap: float) -> None:
    model = bounded()
    lemma = lemma_for(model, BOWLS, LENGTH, target_gap=target_gap, representation_gap=gap)
    assert lemma.applies
    width = math.ceil(target_gap / (gap * math.sqrt(3)))
    assert lemma.width == width
    wider = Architecture(token_dim=2, heads=1, head_dim=3, readout_hidden=(width,))
    bare = Architecture(token_dim=2, heads=1, head_dim=3, readout_hidden=())
    encoder = bare.counted_parameters() - 4
    assert lemma.parameters == wider.counted_parameters() - encoder
    assert f"{width:,} hidden units" in str(lemma)


def test_no_gap_asks_nothing_and_no_distance_asks_more_than_can_be_named() -> None:
    asks_nothing = lemma_for(bounded(), BOWLS, LENGTH, target_gap=0.0, representation_gap=0.0)
    assert (asks_nothing.applies, asks_nothing.width) == (True, None)
    asks_all = lemma_for(bounded(), BOWLS, LENGTH, target_gap=1.0, representation_gap=0.0)
    assert asks_all.width == 10**15
    assert asks_all.parameters == 10**15 * 5 + 1


# All of it.


def check_collisions(model: Transformer, task: RetrievalTask, found: Collisions) -> None:
    """Every number of both collisions from their sequences, and JSON that takes them all."""
    model = double(model)
    with jax.enable_x64(True):
        pool = np.asarray(task.inputs(jax.random.key(0), _POOL, found.length))
    units = units_of(model, task, pool)
    regions = Region.of_data(task, found.length), Region.everywhere(task)
    for part, region in zip((found.inside, found.anywhere), regions, strict=True):
        apart = np.abs(targets(task, part.first) - targets(task, part.second))
        with jax.enable_x64(True):
            both = np.asarray(representations(model, jnp.stack([part.first, part.second])))
        gap = np.linalg.norm(both[0] - both[1])
        assert part.absolute_gap == pytest.approx(apart.max(), rel=1e-9)
        assert part.target_gap == pytest.approx((apart / units.target).max(), rel=1e-9)
        assert part.representation_gap <= SAME
        assert part.representation_gap == pytest.approx(gap / units.representation, rel=1e-3, abs=1e-12)
        assert part.lipschitz == pytest.approx(
            part.absolute_gap / (part.representation_gap * units.representation), rel=1e-9
        )
        assert 0 <= part.typical_gap <= part.target_gap
        assert 0 < part.agreed <= part.tried
        assert plainly_inside(region, part.first)
        assert plainly_inside(region, part.second)
    assert found.anywhere.target_gap >= found.inside.target_gap == found.statistic
    loaded = json.loads(json.dumps(found.to_json(), allow_nan=False))
    np.testing.assert_array_equal(loaded["inside"]["first"], found.inside.first)
    np.testing.assert_array_equal(loaded["anywhere"]["second"], found.anywhere.second)


def test_the_examples_of_the_document_run_and_find_what_one_head_cannot_see() -> None:
    example = doctest.DocTestParser().get_doctest(DOCUMENT.read_text("utf-8"), {}, "collide.md", None, 0)
    done = doctest.DocTestRunner().run(example, clear_globs=False)
    assert done.attempted > 5
    assert done.failed == 0
    model, task, found = (example.globs[name] for name in ("model", "task", "found"))
    assert (found.heads, task.dimension) == (1, 3)
    check_collisions(model, task, found)
    assert found.statistic > 1
    assert not found.why_not_binned
    assert found.binned.target_gap >= GAP * found.binned.epsilon
    binned = found.to_json()["binned"]
    assert binned["lipschitz"] == binned["target_gap"] / max(binned["representation_gap"], 1e-13)


def test_two_layers_with_several_outputs_are_refined_not_binned_and_found_again() -> None:
    model = jax.tree.map(jnp.asarray, small(SEVERAL, seed=5, layers=2))
    assert model.class_token.dtype == jnp.float32
    settings = {"length": 6, "pairs": 6, "steps": 40, "candidates": 2}
    found = collide(model, SEVERAL, **settings)
    assert found.binned is None
    assert "layers = 2" in found.why_not_binned
    assert found.to_json()["binned"] is None
    check_collisions(model, SEVERAL, found)
    again = collide(model, SEVERAL, **settings)
    assert json.dumps(again.to_json()) == json.dumps(found.to_json())


def unequal() -> RetrievalTask:
    """Two outputs, the first a hundred times as large."""
    return RetrievalTask(
        name="unequal",
        token_dim=1,
        coordinate_functions=(lambda x: x[0], lambda x: x[0]),
        extrema=("max", "min"),
        outer=lambda z: jnp.stack([100 * z[0], z[1]]),
    )


def test_the_absolute_gap_is_that_of_the_outputs_that_differ() -> None:
    first, second = np.array([[[1.0], [0.5]]]), np.array([[[1.0], [0.1]]])
    found = Pairs(first, second, np.array([4.0]), np.array([1e-6]))
    best = _best(found, unequal(), Units(2.0, np.array([10.0, 0.1])))
    assert best.absolute_gap == pytest.approx(0.4)
    assert best.lipschitz == pytest.approx(0.4 / 2e-6)


def test_where_nothing_agreed_nothing_is_claimed() -> None:
    x = np.full((3, 4, 1), 0.5)
    nothing = _best(Pairs(x, x, np.zeros(3), np.full(3, np.inf)), EXTREMES, Units(1.0, np.ones(1)))
    gaps = nothing.target_gap, nothing.absolute_gap, nothing.representation_gap, nothing.typical_gap
    assert (*gaps, nothing.lipschitz, nothing.agreed, nothing.tried) == (0, 0, 0, 0, 0, 0, 3)
    json.dumps(nothing.to_json(), allow_nan=False)


def test_starts_of_the_data_are_different_pairs_and_half_of_them_near() -> None:
    model, x = double(small(BOWLS)), data(BOWLS, 30)
    units = units_of(model, BOWLS, x)
    first, second = _from_data(model, BOWLS, x, units, 10, 0)
    assert len(first) == len(second) == 10
    index = {each.tobytes(): place for place, each in enumerate(x)}
    pairs = [(index[a.tobytes()], index[b.tobytes()]) for a, b in zip(first, second, strict=True)]
    assert all(a != b for a, b in pairs)
    ratio = {}
    for a, b in itertools.combinations(range(30), 2):
        wanted = float(np.abs(targets(BOWLS, x[a]) - targets(BOWLS, x[b]))[0] / units.target[0])
        gap = np.linalg.norm(representation(model, x[a]) - representation(model, x[b])) / units.representation
        ratio[a, b] = wanted / (gap + 1e-3) if wanted > 0.2 else 0
    assert set(pairs[:5]) == set(sorted(ratio, key=ratio.__getitem__)[-5:])


def test_targets_that_hardly_differ_still_start_from_different_sequences() -> None:
    model, x = double(small(BOWLS)), np.repeat(data(BOWLS, 2), [9, 1], axis=0)
    x[:9, 0] += 1e-9 * np.arange(9)[:, None]
    first, second = _from_data(model, BOWLS, x, Units(1.0, np.full(1, 1e9)), 10, 0)
    assert (np.abs(first - second).max(axis=(1, 2)) > 0).all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"length": 0}, "length = 0: allowed"),
        ({"pairs": 1}, "pairs = 1: allowed is a whole number from 2 to 2048"),
        ({"pairs": 2049}, "pairs = 2049: allowed is a whole number from 2 to 2048"),
        ({"steps": 0}, "steps = 0: allowed"),
        ({"candidates": 1}, "candidates = 1: allowed"),
        ({"epsilon": -1.0}, "epsilon = -1.0: allowed"),
        ({"seed": -1}, "seed = -1: allowed"),
        ({"seed": 2**63}, "seed = 9223372036854775808: allowed"),
        ({"model": small(EXTREMES)}, "token_dim = 1, output_dim = 1 of the model: bowls has 2 and 1"),
        ({"model": small(SEVERAL)}, "token_dim = 1, output_dim = 3 of the model: bowls has 2 and 1"),
        ({"model": positional(BOWLS, length=4)}, "length = 8: this model knows positions up to 4"),
        (
            {"model": jax.tree.map(np.zeros_like, small(BOWLS))},
            "the representation or the target is the same for every sequence",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_slip_is_refused_in_one_line(wrong: dict[str, Any], words: str) -> None:
    given = {"model": small(BOWLS), "length": LENGTH, "pairs": 4, "steps": 2, "candidates": 10} | wrong
    with pytest.raises(InvalidInput, match=words) as refusal:
        collide(given.pop("model"), BOWLS, **given)
    assert "\n" not in str(refusal.value)
