"""What bins and searches are made of: scores, close pairs, segments."""

import itertools
import math
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist
from theory.collisions.references import (
    BOWLS,
    by_task,
    coordinate,
    data,
    double,
    quickly,
    scores_and_values,
    segments,
    small,
    softmax,
    targets,
)

from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.collisions.pigeonhole import close_pairs

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
