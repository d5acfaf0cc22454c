"""The proof's claims, candidates and bins."""

import itertools
import re
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import theory.collisions.references as plain
from theory.collisions.references import BOWLS, EXTREMES, LENGTH, SEVERAL, positional, segments, small

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.collisions.layout import claims, layout_for
from headcount.theory.collisions.pigeonhole import GAP, _candidates, _complete, _grid, _summaries, pigeonhole
from headcount.theory.constructions.specialise import specialise


def layout_of(model, task):
    with jax.enable_x64(True):
        return layout_for(model, task, LENGTH, segments(task))


@cache
def binned():
    model = positional(BOWLS, seed=1)
    return model, pigeonhole(model, BOWLS, LENGTH, candidates=3000)


@pytest.mark.parametrize("seed", range(4))
def test_each_head_in_turn_claims_its_true_favourite(seed):
    model = positional(BOWLS, heads=3, seed=seed)
    places = np.random.default_rng(seed).uniform(size=(11, 2))
    scores = np.stack(
        [plain.scores_and_values(model, np.tile(place, (LENGTH, 1)))[0] for place in places], axis=1
    )
    expected = []
    for head in range(3):
        favourite = np.unravel_index(scores[head].argmax(), scores[head].shape)
        expected.append(tuple(map(int, favourite)))
        scores[:, :, favourite[1]] = -np.inf
    assert claims(model, places, np.ones(LENGTH, bool)) == expected


def test_the_bins_let_heads_claim_positions_outside_the_hidden_coordinates_own():
    sizes = {"head_dim": 1, "encoder_hidden": (), "positions": "one_hot", "length": LENGTH}
    model = small(SEVERAL, scale_logits=False, **sizes)
    last = np.array([[0.1, *(10.0 * (np.arange(LENGTH) == LENGTH - 1))]])
    one = np.ones((1, 1, 1))
    model = eqx.tree_at(
        lambda made: (made.encoder.weights, made.class_token, made.attention.query, made.attention.key),
        model,
        ((last,), np.ones(1), one, one),
    )
    layout = layout_of(model, SEVERAL)
    scores, _ = plain.scores_and_values(model, layout.sequence)
    assert scores[0].argmax() == LENGTH - 1
    assert LENGTH - 1 not in layout.free


@pytest.mark.parametrize(("free", "points", "limit"), [(1, 8, 2), (2, 3, 8), (3, 4, 50), (40, 8, 2)])
def test_candidates_are_distinct_and_never_fewer_than_two(free, points, limit):
    for seed in range(20):
        chosen = _candidates(free, points, limit, seed)
        assert 2 <= len(chosen) <= limit
        assert len(np.unique(chosen, axis=0)) == len(chosen)
        assert chosen.min() >= 0 and chosen.max() < points
    every = _candidates(3, points, points**3, seed=0)
    assert {*map(tuple, every.tolist())} == {*itertools.product(range(points), repeat=3)}


def test_points_of_the_grid_go_outwards_and_their_targets_are_3_epsilon_apart():
    segment, epsilon = segments(BOWLS)[0], 1e-4
    grid = _grid(segment, 3, epsilon)
    offsets = ((grid - segment.minimiser) @ segment.direction).ravel()
    assert grid.shape[0] == 3
    assert offsets[0] == pytest.approx(segment.begin)
    assert (np.diff(offsets) > 0).all()
    assert offsets[-1] <= segment.begin + segment.reach
    rest = [other.minimiser for other in segments(BOWLS)[1:]]
    values = [plain.targets(BOWLS, np.stack([point, *rest]))[0] for point in grid.reshape(-1, 2)]
    assert np.diff(np.sort(values)).min() >= 3 * epsilon


def test_the_pair_of_a_bin_is_what_it_says():
    model, found = binned()
    layout = layout_of(model, BOWLS)
    assert (found.unattended, found.free) == (layout.unattended, len(layout.free))
    assert found.candidates <= 3000
    rest = np.setdiff1d(np.arange(LENGTH), layout.free)
    for sequence in (found.first, found.second):
        assert ((sequence >= 0) & (sequence <= 1)).all()
        np.testing.assert_array_equal(sequence[rest], layout.sequence[rest])
    (target_gap,), gap = plain.apart(model, BOWLS, found.first, found.second)
    assert found.target_gap == pytest.approx(target_gap, rel=1e-9)
    assert target_gap >= GAP * found.epsilon * (1 - 1e-9)
    assert found.representation_gap == pytest.approx(gap, rel=1e-6, abs=1e-14)
    assert found.lipschitz == found.target_gap / found.representation_gap


def test_every_other_coordinate_has_its_minimum_and_the_hidden_one_none_but_the_free():
    model = positional(BOWLS, heads=2, seed=1)
    layout = layout_of(model, BOWLS)
    functions, hidden = BOWLS.coordinate_functions, layout.unattended
    lowest = [plain.coordinate(function, layout.sequence).min() for function in functions]
    assert [low < 1e-12 for low in lowest] == [i != hidden for i in range(3)]
    assert len(layout.free) == LENGTH - 2 - 3 + 1
    segment = segments(BOWLS)[hidden]
    end = segment.minimiser + (segment.begin + segment.reach) * segment.direction
    assert plain.coordinate(functions[hidden], end[None]) < lowest[hidden]


def test_summaries_are_those_of_the_sequences_one_by_one():
    model = positional(BOWLS, heads=2, seed=1)
    layout = layout_of(model, BOWLS)
    blocks = len(layout.free)
    grid = _grid(segments(BOWLS)[layout.unattended], blocks, 1e-4)
    chosen = _candidates(blocks, grid.shape[1], 30, seed=0)
    rest = np.setdiff1d(np.arange(LENGTH), layout.free)
    masses, averages, shares, besides = [], [], [], []
    for candidate in chosen:
        sequence = layout.sequence.copy()
        sequence[layout.free] = grid[np.arange(blocks), candidate]
        scores, values = plain.scores_and_values(model, sequence)
        mass = np.exp(scores)
        average, beside = (
            np.einsum("ht,hnt->hn", mass[:, part], values[:, :, part])
            / mass[:, part].sum(axis=1, keepdims=True)
            for part in (layout.free, rest)
        )
        masses.append(mass[:, layout.free].sum(axis=1))
        averages.append(average)
        shares.append(masses[-1] / mass.sum(axis=1))
        besides.append(np.linalg.norm(average - beside, axis=1))
    share, beside = np.mean(shares, axis=0), np.mean(besides, axis=0)
    logs = np.log(masses) * share * (1 - share) * beside
    weighted = (np.array(averages) * share[:, None]).reshape(len(chosen), -1)
    with jax.enable_x64(True):
        fast = _summaries(model, layout, grid, chosen)
    # A logarithm of mass is known up to a constant of its head, which no distance sees.
    np.testing.assert_allclose(np.diff(fast[:, :2], axis=0), np.diff(logs, axis=0), rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(fast[:, 2:], weighted, rtol=1e-11)


def test_the_first_block_that_differs_decides_the_target_and_not_the_last():
    model, found = binned()
    layout, segment = layout_of(model, BOWLS), segments(BOWLS)[found.unattended]
    blocks = len(layout.free)
    grid = _grid(segment, blocks, found.epsilon)
    well = partial(plain.coordinate, BOWLS.coordinate_functions[layout.unattended])
    random = np.random.default_rng(0)
    for _ in range(20):
        one, other = random.integers(grid.shape[1], size=(2, blocks))
        differing = np.flatnonzero(one != other)
        if len(differing) < 2:
            continue
        first, second = _complete(layout, grid, one, other)
        (apart,), _ = plain.apart(model, BOWLS, first, second)
        by_block = [np.ptp(well(grid[b, [one[b], other[b]]])) for b in differing]
        assert apart == pytest.approx(by_block[0], rel=1e-9)
        assert apart != pytest.approx(by_block[-1], rel=1e-3)
        agreeing = layout.free[one == other]
        np.testing.assert_array_equal(first[agreeing], np.tile(layout.filler, (len(agreeing), 1)))


def test_of_all_candidates_the_pair_is_nearly_the_closest():
    model = positional(BOWLS, seed=1)
    found = pigeonhole(model, BOWLS, LENGTH, points=2, candidates=32)
    assert found.candidates == 32 == 2**found.free
    layout = layout_of(model, BOWLS)
    grid = _grid(segments(BOWLS)[found.unattended], found.free, found.epsilon)
    gaps = [
        plain.apart(model, BOWLS, *_complete(layout, grid, a, b))[1]
        for a, b in itertools.combinations(_candidates(found.free, 2, 32, seed=0), 2)
    ]
    assert min(gaps) * (1 - 1e-9) <= found.representation_gap <= 2 * min(gaps)


def test_the_largest_epsilon_that_a_message_names_is_valid():
    model, _ = binned()
    with pytest.raises(InvalidInput, match=r"epsilon: expected a number <= .*, got 0.5") as refusal:
        pigeonhole(model, BOWLS, LENGTH, epsilon=0.5)
    named = float(re.findall(r"<= (\S+),", str(refusal.value))[0])
    found = pigeonhole(model, BOWLS, LENGTH, epsilon=named, candidates=100)
    assert found.points == 2 and found.target_gap >= GAP * named
    with pytest.raises(InvalidInput):
        pigeonhole(model, BOWLS, LENGTH, epsilon=1.02 * named)


def own(name, *functions, outer=jnp.sum, token_dim=1):
    return RetrievalTask(name=name, token_dim=token_dim, coordinate_functions=functions, outer=outer)


FLAT = own("flat", lambda x: x[0], lambda x: jnp.sum((x - 0.5) ** 2), token_dim=2)  # lowest along an edge
SHARED = own("shared", lambda x: (x[0] - 0.5) ** 2, lambda x: (x[0] - 0.5) ** 2 / 2)  # one minimiser
HIDDEN = own("hidden", lambda x: x[0] ** 2, lambda x: (x[0] - 1) ** 2, outer=lambda z: z[1])


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        (BOWLS, {"model": small(BOWLS, layers=2)}, "layers: expected 1"),
        (BOWLS, {"model": small(BOWLS, reader="last token")}, "reader: expected a class token"),
        (EXTREMES, {"model": None}, "heads = 2: every coordinate is attended"),
        (BOWLS, {"model": small(BOWLS, heads=3), "length": 3}, "length: expected an integer > heads"),
        (BOWLS, {"length": 2}, "length = 2: no position is left"),
        (BOWLS, {"length": 3}, "length = 3: no position is left free"),
        (FLAT, {}, "coordinate 0 of flat has no single minimiser"),
        (SHARED, {}, "two coordinates of shared share"),
        (HIDDEN, {}, "target of hidden does not rise along a segment of coordinate 0"),
        (BOWLS, {"epsilon": 0.0}, "epsilon: expected"),
    ],
)
def test_where_the_proof_has_nothing_to_bin_one_line_says_why(task, options, words):
    options = {"model": small(task), "length": 8} | options
    model = options.pop("model") or specialise(task, length=8, epsilon=0.1).model
    with pytest.raises(InvalidInput, match=words) as refusal:
        pigeonhole(model, task, **options)
    assert "\n" not in str(refusal.value)
