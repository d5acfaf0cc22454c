"""What to type follows from D, the depth and the width, and agrees with the plan."""

from dataclasses import replace

import pytest
from believable_curves import sweep
from hypothesis import given
from hypothesis import strategies as st

from headcount.estimate.advice import advice_of
from headcount.estimate.evidence import with_shapes
from headcount.estimate.num_heads import READINGS
from headcount.estimate.verdict import decide
from headcount.theory.plan import LAYERS

THREE = decide(sweep(3))


def of(dimension, *, recommended=None, d_model=None):
    recommended = recommended or dimension
    found = replace(THREE, dimension=dimension, recommended_heads=recommended)
    return with_shapes(found, d_model=d_model)


@given(dimension=st.integers(2, 16), d_model=st.sampled_from([None, 64, 96, 512, 770]))
def test_every_cell_is_the_count_of_the_plan_and_divides_the_width(dimension, d_model):
    found = of(dimension, d_model=d_model)
    advice, shapes = advice_of(found), found.evidence["shapes"]
    assert [row[0] for row in advice.rows] == [str(layers) for layers in LAYERS]
    for column, reading in enumerate(READINGS, 1):
        for row, planned in zip(advice.rows, shapes[reading], strict=True):
            written, _, guessed = row[column].removeprefix("num_heads=").partition(" ")
            assert int(written) == planned["heads" if d_model is None else "num_heads"]
            assert d_model is None or d_model % int(written) == 0
            assert (guessed == "~") == (planned["behind"] == "guessed")


def test_one_layer_takes_the_recommendation_and_the_notes_say_why():
    advice = advice_of(of(3, recommended=5))
    assert advice.rows[0][1:] == ("num_heads=5", "num_heads=5") and advice.rows[1][2] == "num_heads=2"
    assert any("clearly lower than with D = 3" in note for note in advice.notes)
    assert not any("guessed" in note for note in advice.notes)  # three layers of one head were trained
    assert advice_of(of(3, recommended=5, d_model=512)).rows[0][1] == "num_heads=8"


def test_a_mark_is_for_what_no_smaller_shape_was_trained_for():
    advice = advice_of(of(8))
    assert [row[1] for row in advice.rows] == [f"num_heads={n}" for n in ("8", "3", "2", "1 ~", "1 ~")]
    assert [row[2] for row in advice.rows] == [f"num_heads={n}" for n in ("8", "4 ~", "2 ~", "2 ~", "1 ~")]
    assert advice.notes[-1].startswith("~ guessed: neither such a shape nor a smaller one")


def test_the_same_number_at_every_depth_is_a_sentence():
    assert advice_of(of(1, d_model=512)).heading == "Type num_heads=1, with d_model=512, at any depth."
    assert advice_of(of(1)).rows == ()


@pytest.mark.parametrize("recommended", [3, 7])
def test_a_width_without_such_a_divisor_has_no_number(recommended):
    advice = advice_of(of(3, recommended=recommended, d_model=2))
    assert advice.rows[0][1:] == ("–", "–")


def test_an_unknown_d_has_no_advice():
    assert advice_of(with_shapes(replace(THREE, dimension=None, recommended_heads=None), d_model=8)) is None
