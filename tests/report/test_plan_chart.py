"""The frontier on the page of a plan."""

import json

import pytest

from headcount.report.plan_chart import MAX_LINES, MAX_POINTS, frontier, frontier_chart
from headcount.theory.capacity import capacity
from headcount.theory.model_config import model_config
from headcount.theory.plan import Family, plan
from headcount.theory.plan_answer import PlanAnswer

CONFIG = {"model_type": "llama", "num_hidden_layers": 16, "num_attention_heads": 32, "hidden_size": 2048}
LLAMA = model_config({**CONFIG, "num_key_value_heads": 8, "intermediate_size": 8192})


def answer_for(dimension=None, model=None, layers=(1, 2, 4), **options):
    family = Family(**options) if model is None else model.family()
    depths = () if dimension is None else plan(dimension, layers=layers, family=family)
    return PlanAnswer(dimension, family, depths, model)


@pytest.mark.parametrize("behind", ["trained", "constructed"])
def test_every_mark_is_what_its_shape_reaches(behind):
    points = frontier(answer_for(4), behind=behind)
    assert {point.heads for point in points} == {1, 2, 4}
    assert {point.layers for point in points} == set(range(1, 13))
    for point in points:
        found = capacity(layers=point.layers, heads=point.heads, head_dim=64)
        assert point.dimension == getattr(found, behind)
        assert point.known == (behind == "constructed" or found.behind_trained == "mapped")


def test_the_model_itself_is_marked_with_its_key_value_heads():
    points = frontier(answer_for(model=LLAMA), behind="constructed")
    (own,) = [point for point in points if point.own]
    assert (own.layers, own.heads, own.dimension) == (16, 32, LLAMA.sized().reach.constructed)


@pytest.mark.parametrize(
    "answer",
    [
        answer_for(1),
        answer_for(9, width=6, layers=(1,)),
        answer_for(9_999, layers=range(1, 201, 7)),
        answer_for(700, model=LLAMA, layers=(16,)),
    ],
)
def test_any_plan_has_a_chart_of_bearable_size(answer):
    points = frontier(answer, behind="trained")
    assert 1 <= len({point.heads for point in points}) <= MAX_LINES
    depths = len(answer.depths)
    assert len({point.layers for point in points}) <= MAX_POINTS + 2 + depths
    drawn = frontier_chart(points, dimension=answer.dimension, description="").to_dict()
    json.dumps(drawn, allow_nan=False)
