"""From D to a number of heads that a model of some width accepts."""

from dataclasses import replace

import pytest
from believable_curves import sweep
from hypothesis import given
from hypothesis import strategies as st

from headcount.errors import InvalidInput
from headcount.estimate.evidence import with_shapes
from headcount.estimate.num_heads import READINGS, check_d_model, legal_heads, shapes_of
from headcount.estimate.verdict import decide
from headcount.theory.plan import LAYERS, heads_by_layers

THREE = replace(decide(sweep(3, heads=range(1, 7))), recommended_heads=3)


@given(st.integers(1, 600), st.integers(1, 600))
def test_it_is_the_first_count_from_d_on_that_divides_the_width(dimension, d_model):
    dividing = [count for count in range(dimension, d_model + 1) if d_model % count == 0]
    if dividing:
        assert legal_heads(dimension, d_model) == dividing[0]
    else:
        with pytest.raises(
            InvalidInput, match=f"^d_model: expected an integer >= {dimension}, .* got {d_model}$"
        ):
            legal_heads(dimension, d_model)


@pytest.mark.parametrize("wrong", [0, -512, 512.0, "512", True, 10**9])
def test_a_width_that_is_none_is_refused_in_one_line(wrong):
    with pytest.raises(InvalidInput, match=r"^d_model: expected an integer from 1 to 1000000, got "):
        check_d_model(wrong)
    assert check_d_model(None) is None


def test_every_depth_has_the_next_legal_count():
    shapes = shapes_of(5, recommended=6, d_model=512)
    assert (shapes["d_model"], shapes["num_heads"]) == (512, 8)
    for reading in READINGS:
        assert [row["layers"] for row in shapes[reading]] == list(LAYERS)
        assert all(row["num_heads"] == legal_heads(row["heads"], 512) for row in shapes[reading])
    assert shapes_of(5, recommended=6, d_model=None) == heads_by_layers(5)


def test_a_width_smaller_than_the_heads_is_said_and_costs_no_answer():
    found = with_shapes(THREE, d_model=2)
    assert (found.dimension, found.evidence["shapes"]["num_heads"]) == (3, None)
    assert found.reasons[-1] == "num_heads divides d_model, so 3 heads need a d_model above 2."
    assert with_shapes(THREE, d_model=3).reasons == THREE.reasons
    unknown = replace(THREE, dimension=None, recommended_heads=None)
    assert with_shapes(unknown, d_model=2).evidence["shapes"] is None
