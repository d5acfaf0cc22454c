"""What bins and searches are made of: scores, close pairs, segments, and the lemma."""

import itertools
import math
import re

import equinox as eqx
import jax
import numpy as np
import pytest
import theory.collisions.references as plain
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from models.model_references import reference
from scipy.spatial.distance import pdist
from scipy.special import softmax
from theory.collisions.references import BOWLS, LENGTH, by_task, quickly, segments, small

from headcount.models.architecture import Architecture
from headcount.theory.collisions.collide import broken_clauses, lemma_for
from headcount.theory.collisions.pigeonhole import close_pairs


@pytest.mark.parametrize(
    "options",
    [
        {"heads": 2},
        {"heads": 4, "kv_heads": 2, "beta": 3.0},
        {"heads": 3, "kv_heads": 1, "scale_logits": False, "encoder_activation": "tanh"},
        {"heads": 2, "positions": "one_hot", "length": 9},
        {"heads": 2, "encoder_hidden": ()},
        {"heads": 2, "layers": 2, "layer_norm": True},
        {"heads": 2, "layers": 2, "causal": True, "window": 1, "residual_width": 5},
    ],
    ids=str,
)
def test_scores_and_values_are_all_that_a_token_does(options):
    model, x = small(BOWLS, seed=3, **options), plain.data(BOWLS, 1, seed=4)[0]
    with jax.enable_x64(True):
        scores, values = map(np.asarray, eqx.filter_jit(model.scores_and_values)(x))
    reading = reference(model, x)
    np.testing.assert_allclose(softmax(scores, axis=1), reading.weights, rtol=1e-12)
    averages = np.einsum("ht,hnt->hn", reading.weights, values)
    read = model.class_token + np.einsum("ehn,hn->e", model.attention.output, averages)
    np.testing.assert_allclose(read, reading.representation, rtol=1e-12, atol=1e-14)
    if model.architecture.layers == 1:
        for fast, slow in zip((scores, values), plain.scores_and_values(model, x), strict=True):
            np.testing.assert_allclose(fast, slow, rtol=1e-12, atol=1e-14)


clouds = st.tuples(st.integers(2, 30), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-10, 10, allow_subnormal=False))
)


@quickly
@given(clouds, st.integers(1, 40), st.integers(0, 3))
def test_close_pairs_are_true_pairs_with_true_distances(points, keep, seed):
    found = close_pairs(points, keep=keep, seed=seed)
    pairs = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert 1 <= len(pairs) == len(set(pairs)) <= keep
    assert all(a < b for a, b in pairs)
    assert (np.diff(found.distance) >= 0).all()
    distances = dict(zip(itertools.combinations(range(len(points)), 2), pdist(points), strict=True))
    np.testing.assert_allclose(found.distance, [distances[pair] for pair in pairs], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("axes", "apart"), [(1, 1e-9), (2, 1e-7), (8, 1e-3), (20, 1e-2)])
def test_the_planted_pair_is_found(axes, apart):
    for seed in range(10):
        random = np.random.default_rng(seed)
        points = random.uniform(size=(600, axes))
        one, other = sorted(random.choice(600, 2, replace=False).tolist())
        points[other] = points[one] + apart / math.sqrt(axes)
        found = close_pairs(points, keep=5, seed=seed)
        assert (found.first[0], found.second[0]) == (one, other)
        assert found.distance[0] == pytest.approx(pdist(points).min(), rel=1e-9)


@by_task
def test_segments_lie_in_the_cube_and_in_balls_that_do_not_meet(task):
    found = segments(task)
    for segment in found:
        assert ((segment.places >= 0) & (segment.places <= 1)).all()
        np.testing.assert_array_equal(segment.places[0], segment.minimiser)
        assert np.linalg.norm(segment.direction) == 1
        assert segment.begin == segment.reach > 0  # from r/4 to r/2
    for one, other in itertools.combinations(found, 2):
        apart = np.linalg.norm(one.minimiser - other.minimiser)
        assert 4 * one.begin + 4 * other.begin <= apart + 1e-12


@by_task
def test_the_target_changes_along_a_segment_at_least_as_fast_as_promised(task):
    found = segments(task)
    for index, segment in enumerate(found):
        offsets = segment.begin + segment.reach * np.linspace(0, 1, 301)
        points = segment.minimiser + offsets[:, None] * segment.direction
        heights = plain.coordinate(task.coordinate_functions[index], points)
        # Two copies of each, so that even positions have one.
        rest = np.repeat([other.minimiser for other in found if other is not segment], 2, axis=0)
        values = np.stack([plain.targets(task, np.concatenate([[point, point], rest])) for point in points])
        rises = np.diff(heights) if task.extrema[index] == "min" else -np.diff(heights)
        assert (rises > 0).all()
        slopes = np.abs(np.diff(values, axis=0)) / np.diff(offsets)[:, None]
        assert 1 - 1e-6 <= slopes.min(axis=0).max() / segment.smallest_slope <= 1.1


def bounded(**options):
    model = small(BOWLS, **({"readout_activation": "relu"} | options))
    return jax.tree.map(lambda leaf: 0.5 * leaf, model)


def filled(where, value):
    model = bounded()
    return eqx.tree_at(where, model, np.full_like(where(model), value))


@pytest.mark.parametrize(
    ("clause", "made"),
    [
        ("F has 2 hidden layers, not 1", lambda: bounded(readout_hidden=(5, 4))),
        ("gelu is steeper than 1", lambda: bounded(readout_activation="gelu")),
        (r"the largest entry of F is 1\.5, above 1", lambda: filled(lambda m: m.readout.weights[1], -1.5)),
        ("the largest entry of the attention is 2, above 1", lambda: filled(lambda m: m.attention.key, -2.0)),
        (r"\|P\(x, t\)\| reaches [45]\.\d+, above 1", lambda: filled(lambda m: m.encoder.biases[-1], 3.0)),
    ],
)
def test_each_broken_clause_is_named_alone(clause, made):
    lemma = lemma_for(made(), BOWLS, LENGTH, target_gap=1.0, representation_gap=1e-6)
    assert not lemma.applies
    assert (lemma.width, lemma.parameters) == (None, None)
    assert len(lemma.broken) == 1
    assert re.fullmatch(f"the lemma does not apply: {clause}", str(lemma))


def test_an_encoding_that_is_long_at_a_corner_only_is_noticed():
    model = bounded(encoder_hidden=())
    weights = np.zeros_like(model.encoder.weights[0])
    weights[0] = 0.55  # |P| = 0.55 (x_1 + x_2), above 1 where both are above 0.9
    model = eqx.tree_at(
        lambda made: (made.encoder.weights, made.encoder.biases), model, ((weights,), (np.zeros(3),))
    )
    assert broken_clauses(model, BOWLS, LENGTH) == ("|P(x, t)| reaches 1.1, above 1",)


@pytest.mark.parametrize(("target_gap", "gap"), [(1.0, 1e-3), (0.2, 3e-7), (1e-3, 1.0)])
def test_the_width_is_that_of_the_lemma(target_gap, gap):
    """A readout with P hidden units moves by at most P √E times the distance of its inputs."""
    lemma = lemma_for(bounded(), BOWLS, LENGTH, target_gap=target_gap, representation_gap=gap)
    assert lemma.applies
    width = math.ceil(target_gap / (gap * math.sqrt(3)))
    assert lemma.width == width
    wider = Architecture(token_dim=2, heads=1, head_dim=3, readout_hidden=(width,))
    bare = Architecture(token_dim=2, heads=1, head_dim=3, readout_hidden=())
    encoder = bare.counted_parameters() - 4
    assert lemma.parameters == wider.counted_parameters() - encoder
    assert f"{width:,} hidden units" in str(lemma)


def test_no_gap_asks_nothing_and_no_distance_asks_more_than_can_be_named():
    asks_nothing = lemma_for(bounded(), BOWLS, LENGTH, target_gap=0.0, representation_gap=0.0)
    assert (asks_nothing.applies, asks_nothing.width) == (True, None)
    assert "no pair was found that asks anything" in str(asks_nothing)
    asks_all = lemma_for(bounded(), BOWLS, LENGTH, target_gap=1.0, representation_gap=0.0)
    assert (asks_all.width, asks_all.parameters) == (10**15, 10**15 * 5 + 1)
