import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from headcount.tasks.library import bowls, bowls_several, extremes, max_sum

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

LENGTH = 6
TASKS = {
    "max_sum": max_sum(dimension=3, token_dim=2),
    "bowls": bowls(dimension=3, token_dim=2),
    "bowls_several": bowls_several(dimension=3, token_dim=2),
    "extremes": extremes(),
}
COORDINATES = {name: jax.jit(task.coordinates) for name, task in TASKS.items()}
SLOPE_OF_EXTREMES = jax.jit(jax.grad(lambda x: extremes().target(x)[0]))
PARTS = bowls(dimension=5, token_dim=2, positions=["first half", "second half", "even", "odd", [1, 4]])
COORDINATES_OF_PARTS = jax.jit(PARTS.coordinates)
# The same token may round differently at another place or length: loops are vectorised in blocks.
ROUNDING = 1e-6
quickly = settings(max_examples=25, deadline=None)
every_task = pytest.mark.parametrize("name", TASKS)


def sequences(token_dim: int, length: int = LENGTH) -> st.SearchStrategy[FloatArray]:
    return arrays(np.float32, (length, token_dim), elements=st.floats(0, 1, width=32, allow_subnormal=False))


@every_task
@quickly
@given(data=st.data())
def test_neither_order_nor_repetition_matters_where_all_positions_count(
    name: str, data: st.DataObject
) -> None:
    x = data.draw(sequences(TASKS[name].token_dim))
    order = data.draw(st.permutations([*range(LENGTH), data.draw(st.integers(0, LENGTH - 1))]))
    np.testing.assert_allclose(COORDINATES[name](x[order]), COORDINATES[name](x), atol=ROUNDING)


@every_task
@quickly
@given(data=st.data())
def test_more_tokens_only_lower_a_min_and_only_raise_a_max(name: str, data: st.DataObject) -> None:
    task = TASKS[name]
    x = data.draw(sequences(task.token_dim, LENGTH + 1))
    before, after = COORDINATES[name](x[:LENGTH]), COORDINATES[name](x)
    for extremum, old, new in zip(task.extrema, before, after, strict=True):
        assert new <= old + ROUNDING if extremum == "min" else new >= old - ROUNDING


@quickly
@given(x=sequences(2), other=sequences(2))
def test_tokens_outside_the_set_do_not_matter(x: FloatArray, other: FloatArray) -> None:
    coordinates = COORDINATES_OF_PARTS(x)
    for index, positions in enumerate(PARTS.positions):
        mixed = np.where(positions.mask(LENGTH)[:, None], x, other)
        assert COORDINATES_OF_PARTS(mixed)[index] == coordinates[index]


@quickly
@given(x=sequences(1))
def test_the_gradient_of_extremes_sits_on_the_extreme_tokens(x: FloatArray) -> None:
    gradient = SLOPE_OF_EXTREMES(x)
    is_extreme = (x == x.min()) | (x == x.max())
    np.testing.assert_array_equal(np.asarray(gradient) != 0, is_extreme)
    np.testing.assert_allclose(gradient.sum(), 2, rtol=1e-6)
