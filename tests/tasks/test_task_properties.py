from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headcount.tasks.library import Bowl, bowls, bowls_several, extremes, max_sum

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

LENGTH = 6
TASKS_BY_NAME = {
    "max_sum": max_sum(dimension=3, token_dim=2),
    "bowls": bowls(dimension=3, token_dim=2),
    "bowls_several": bowls_several(dimension=3, token_dim=2),
    "extremes": extremes(),
}
COORDINATES = {name: jax.jit(task.coordinates) for name, task in TASKS_BY_NAME.items()}
TARGETS = {name: jax.jit(task.target) for name, task in TASKS_BY_NAME.items()}
PARTS = bowls(dimension=5, token_dim=2, positions=["first half", "second half", "even", "odd", [1, 4]])
COORDINATES_OF_PARTS = jax.jit(PARTS.coordinates)
ONE_BOWL = bowls(dimension=1, token_dim=2, wells=[[0.25, 0.5]])
# The same token may round differently at another place or length: loops are vectorised in blocks.
ROUNDING = 1e-6
quickly = settings(max_examples=25)


def sequences(token_dim: int, length: int = LENGTH) -> st.SearchStrategy[FloatArray]:
    return arrays(np.float32, (length, token_dim), elements=st.floats(0, 1, width=32, allow_subnormal=False))


every_task = pytest.mark.parametrize("name", TASKS_BY_NAME)


@every_task
@quickly
@given(data=st.data())
def test_order_does_not_matter_where_all_positions_count(name: str, data: st.DataObject) -> None:
    task = TASKS_BY_NAME[name]
    x = data.draw(sequences(task.token_dim))
    order = data.draw(st.permutations(range(LENGTH)))
    np.testing.assert_allclose(TARGETS[name](x[order]), TARGETS[name](x), atol=ROUNDING)


@every_task
@quickly
@given(data=st.data())
def test_a_token_seen_before_changes_nothing(name: str, data: st.DataObject) -> None:
    task = TASKS_BY_NAME[name]
    x = data.draw(sequences(task.token_dim))
    again = data.draw(st.integers(0, LENGTH - 1))
    longer = np.concatenate([x, x[again : again + 1]])
    np.testing.assert_allclose(COORDINATES[name](longer), COORDINATES[name](x), atol=ROUNDING)


@every_task
@quickly
@given(data=st.data())
def test_more_tokens_only_lower_a_min_and_only_raise_a_max(name: str, data: st.DataObject) -> None:
    task = TASKS_BY_NAME[name]
    x = data.draw(sequences(task.token_dim, LENGTH + 1))
    before, after = COORDINATES[name](x[:LENGTH]), COORDINATES[name](x)
    for extremum, old, new in zip(task.extrema, before, after, strict=True):
        assert new <= old + ROUNDING if extremum == "min" else new >= old - ROUNDING


@quickly
@given(x=sequences(2))
def test_a_token_that_is_no_better_changes_nothing(x: FloatArray) -> None:
    nearest = np.argmin(((x - np.array([0.25, 0.5])) ** 2).sum(axis=-1))
    alone, among_others = (
        ONE_BOWL.target(jnp.asarray(x[nearest : nearest + 1])),
        ONE_BOWL.target(jnp.asarray(x)),
    )
    np.testing.assert_allclose(alone, among_others, atol=ROUNDING)


@quickly
@given(x=sequences(2))
def test_max_is_min_of_one_minus_f(x: FloatArray) -> None:
    bowl = Bowl((0.25, 0.5))
    highest = replace(ONE_BOWL, extrema=("max",))
    mirrored = replace(ONE_BOWL, coordinate_functions=(lambda token: 1 - bowl(token),))
    np.testing.assert_allclose(
        highest.target(jnp.asarray(x)), 1 - mirrored.target(jnp.asarray(x)), atol=ROUNDING
    )


@quickly
@given(x=sequences(2), other=sequences(2))
def test_tokens_outside_the_set_do_not_matter(x: FloatArray, other: FloatArray) -> None:
    coordinates = COORDINATES_OF_PARTS(x)
    for index, positions in enumerate(PARTS.positions):
        mixed = np.where(positions.mask(LENGTH)[:, None], x, other)
        assert COORDINATES_OF_PARTS(mixed)[index] == coordinates[index]


@every_task
@quickly
@given(data=st.data())
def test_jit_and_vmap_give_the_same_numbers(name: str, data: st.DataObject) -> None:
    task = TASKS_BY_NAME[name]
    x = jnp.stack([jnp.asarray(data.draw(sequences(task.token_dim))) for _ in range(2)])
    plain = task.target(x)
    np.testing.assert_allclose(TARGETS[name](x), plain, atol=ROUNDING)
    np.testing.assert_allclose(jax.vmap(TARGETS[name])(x), plain, atol=ROUNDING)


@quickly
@given(length=st.integers(2, 200))
def test_halves_and_parities_split_the_positions(length: int) -> None:
    for one, other in (("first half", "second half"), ("even", "odd")):
        first, second = (extremes(positions=rule).positions[0].mask(length) for rule in (one, other))
        np.testing.assert_array_equal(first, ~second)
