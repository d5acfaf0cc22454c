"""The proof's claims, candidates and bins."""

import itertools
import re
from collections.abc import Callable
from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from theory.collisions.references import (
    BOWLS,
    EXTREMES,
    LENGTH,
    SEVERAL,
    coordinate,
    double,
    positional,
    representation,
    scores_and_values,
    segments,
    small,
    targets,
)

from headcount.errors import InvalidInput
from headcount.models.transformer import Transformer
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.collisions.layout import Layout, claims, layout_for
from headcount.theory.collisions.pigeonhole import (
    GAP,
    Pigeonhole,
    _candidates,
    _complete,
    _grid,
    _summaries,
    pigeonhole,
)
from headcount.theory.constructions.specialise import specialise

# Claims.


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
        return layout_for(model, task, LENGTH, segments(task))


@cache
def binned() -> tuple[Transformer, Pigeonhole]:
    model = positional(BOWLS, seed=1)
    return model, pigeonhole(model, BOWLS, LENGTH, candidates=3000)


@pytest.mark.parametrize(("free", "points", "most"), [(1, 8, 2), (2, 3, 8), (3, 4, 50), (40, 8, 2)])
def test_candidates_are_distinct_and_never_fewer_than_two(free: int, points: int, most: int) -> None:
    for seed in range(20):
        chosen = _candidates(free, points, most, seed)
        assert 2 <= len(chosen) <= most
        assert len({tuple(row) for row in chosen.tolist()}) == len(chosen)
        assert chosen.min() >= 0
        assert chosen.max() < points
    every = _candidates(min(free, 3), points, points ** min(free, 3), seed=0)
    assert {*map(tuple, every.tolist())} == {*itertools.product(range(points), repeat=min(free, 3))}


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


def test_the_largest_epsilon_that_a_message_names_is_valid() -> None:
    model, _ = binned()
    with pytest.raises(InvalidInput, match=r"epsilon: expected a number <= .*, got 0.5") as refusal:
        pigeonhole(model, BOWLS, LENGTH, epsilon=0.5)
    named = float(re.findall(r"<= (\S+),", str(refusal.value))[0])
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
        (lambda: pigeonhole(small(BOWLS, layers=2), BOWLS, 8), "layers: expected 1"),
        (
            lambda: pigeonhole(specialise(EXTREMES, length=8, epsilon=0.1).model, EXTREMES, 8),
            "heads = 2: every coordinate is attended",
        ),
        (lambda: pigeonhole(double(small(BOWLS, heads=3)), BOWLS, 3), "length: expected an integer > heads"),
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
        (lambda: pigeonhole(small(BOWLS), BOWLS, 8, epsilon=0.0), "epsilon: expected"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_where_the_proof_has_nothing_to_bin_one_line_says_why(
    attempt: Callable[[], object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)
