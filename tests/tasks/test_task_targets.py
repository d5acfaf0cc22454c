import json
from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from task_references import CASES, Case, FloatArray, reference_coordinates, reference_target

from headcount.tasks.library import Bowl, Projection, bowls, bowls_several, extremes, max_sum
from headcount.tasks.registry import TASKS
from headcount.tasks.retrieval import Positions, RetrievalTask, position_sets

LENGTH = 6
FREE_TASKS = (max_sum(dimension=3, token_dim=2), bowls_several(dimension=3, token_dim=2), extremes())
SLOPE_OF_EXTREMES = jax.jit(jax.grad(lambda x: extremes().target(x)[0]))
quickly = settings(max_examples=25)


def sequences(token_dim: int) -> st.SearchStrategy[FloatArray]:
    return arrays(np.float32, (LENGTH, token_dim), elements=st.floats(0, 1, width=32, allow_subnormal=False))


def draw(task: RetrievalTask, length: int) -> FloatArray:
    generator = np.random.default_rng(length)
    shape = (3, length, task.token_dim)
    return generator.uniform(size=shape) if task.distribution == "uniform" else generator.normal(size=shape)


def test_the_table_of_cases_covers_every_named_task() -> None:
    assert {case.name for case in CASES} == set(TASKS)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_coordinates_and_target_agree_with_the_plain_reference(case: Case) -> None:
    task = case.build()
    evaluate = jax.jit(lambda x: (task.coordinates(x), task.target(x)))
    with jax.enable_x64(True):
        for length in case.lengths:
            x = draw(task, length)
            coordinates, y = evaluate(jnp.asarray(x))
            expected = [reference_coordinates(case, sequence) for sequence in x]
            np.testing.assert_allclose(coordinates, expected, rtol=1e-13, atol=1e-15)
            np.testing.assert_allclose(y, [reference_target(case, s) for s in x], rtol=1e-13, atol=1e-15)
            assert y.dtype == jnp.float64
            assert y.shape == (3, task.output_dim)


@pytest.mark.parametrize("case", {case.name: case for case in CASES}.values(), ids=str)
def test_float32_stays_float32_and_close(case: Case) -> None:
    task = case.build()
    x = draw(task, case.lengths[-1]).astype(np.float32)
    y = jax.jit(task.target)(jnp.asarray(x))
    expected = [reference_target(case, sequence.astype(np.float64)) for sequence in x]
    assert y.dtype == jnp.float32
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_options_survive_storage_as_json(case: Case) -> None:
    task = case.build()
    restored = Case(case.name, json.loads(json.dumps(case.options))).build()
    for part in fields(task):
        assert getattr(restored, part.name) == getattr(task, part.name)


def test_samples_pair_inputs_with_targets_whatever_the_leading_axes() -> None:
    task = bowls(dimension=2, token_dim=3)
    x, y = task.sample(jax.random.key(1), count=6, length=5)
    assert x.shape == (6, 5, 3)
    for shape in ((), (2, 0), (2, 3)):
        assert jax.eval_shape(task.target, jnp.ones((*shape, 5, 3))).shape == (*shape, 1)
    np.testing.assert_array_equal(y, task.target(x))
    np.testing.assert_array_equal(x, task.inputs(jax.random.key(1), 6, 5))
    assert not np.array_equal(x, task.inputs(jax.random.key(2), 6, 5))


def test_tokens_have_the_distribution_of_the_task() -> None:
    uniform, normal = (
        np.asarray(task.inputs(jax.random.key(0), 1000, 16)) for task in (extremes(), max_sum())
    )
    assert 0 <= uniform.min() < 0.001
    assert 0.999 < uniform.max() < 1
    assert abs(float(uniform.mean()) - 0.5) < 0.01
    assert abs(float(normal.mean())) < 0.02
    assert abs(float(normal.var()) - 1) < 0.03


def test_a_token_outside_its_set_spoils_neither_value_nor_gradient() -> None:
    task = bowls(dimension=2, token_dim=1, wells=[[0.25], [0.75]], positions="even")
    x = jnp.array([[0.2], [jnp.nan], [0.8], [jnp.inf]])
    value, gradient = jax.jit(jax.value_and_grad(lambda tokens: task.target(tokens)[0]))(x)
    assert np.isfinite(value)
    np.testing.assert_array_equal(np.asarray(gradient)[:, 0] != 0, [True, False, True, False])


def test_random_directions_are_unit_vectors_that_keep_apart() -> None:
    task = max_sum(dimension=6, token_dim=2, smallest_angle=40.0)
    vectors = np.array([f.direction for f in task.coordinate_functions if isinstance(f, Projection)])
    cosines = vectors @ vectors.T
    np.testing.assert_allclose(np.diag(cosines), 1)
    assert cosines[~np.eye(6, dtype=bool)].max() <= np.cos(np.radians(40)) + 1e-12


def test_random_wells_keep_apart_and_off_the_faces() -> None:
    task = bowls(dimension=8, token_dim=2, smallest_distance=0.2, seed=5)
    wells = np.array([f.well for f in task.coordinate_functions if isinstance(f, Bowl)])
    distances = np.linalg.norm(wells[:, None] - wells[None], axis=-1)
    assert distances[~np.eye(8, dtype=bool)].min() >= 0.2
    assert wells.min() >= 0.1
    assert wells.max() <= 0.9


def test_seeds_give_the_same_vectors_everywhere_and_others_give_others() -> None:
    first, other = max_sum().coordinate_functions[0], max_sum(seed=1).coordinate_functions[0]
    assert isinstance(first, Projection)
    # Written down once: a change of the generator would silently change the task behind stored results.
    pinned = (0.1865168763949313, -0.19597346002732666, 0.950047103190218, 0.15561606441711276)
    np.testing.assert_allclose(first.direction, pinned, rtol=1e-12)
    assert first != other


@pytest.mark.parametrize("task", FREE_TASKS, ids=lambda task: task.name)
@quickly
@given(data=st.data())
def test_neither_order_nor_repetition_matters_where_all_positions_count(
    task: RetrievalTask, data: st.DataObject
) -> None:
    x = data.draw(sequences(task.token_dim))
    order = data.draw(st.permutations([*range(LENGTH), data.draw(st.integers(0, LENGTH - 1))]))
    # The same token may round differently at another place or length: loops are vectorised in blocks.
    np.testing.assert_allclose(task.target(jnp.asarray(x[order])), task.target(jnp.asarray(x)), atol=1e-6)


@quickly
@given(x=sequences(1))
def test_the_gradient_of_extremes_sits_on_the_extreme_tokens(x: FloatArray) -> None:
    gradient = SLOPE_OF_EXTREMES(x)
    is_extreme = (x == x.min()) | (x == x.max())
    np.testing.assert_array_equal(np.asarray(gradient) != 0, is_extreme)
    np.testing.assert_allclose(gradient.sum(), 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("rule", "indices"),
    [
        ("all", [0, 1, 2, 3, 4]),
        ("first half", [0, 1, 2]),
        ("second half", [3, 4]),
        ("even", [0, 2, 4]),
        ("odd", [1, 3]),
        ([4, 0], [0, 4]),
        (np.array([2, 1]), [1, 2]),
        (lambda length: range(length - 2, length), [3, 4]),
    ],
)
def test_a_rule_names_its_positions(rule: object, indices: list[int]) -> None:
    (positions,) = position_sets(rule)
    assert positions.indices(5).tolist() == indices
    assert np.flatnonzero(positions.mask(5)).tolist() == indices


def test_equal_sets_are_equal_whatever_the_order() -> None:
    assert Positions([3, 1]) == Positions((1, 3)) != Positions([3])
    assert hash(Positions([3, 1])) == hash(Positions((1, 3)))
