"""A plan as a file: read back as it was written, and every slip in an edited one is one line."""

import json
from dataclasses import replace

import pytest

from headcount.errors import InvalidInput
from headcount.trained.plan import LayerShape, Plan, Solution, read_plan
from headcount.trained.rise import Rise

RISE = Rise(0.02, 0.01, 0.03, 40)
LAYERS = tuple(LayerShape(f"layers.{number}", 4, 2, 8) for number in range(2))
UNIFORM, FREE = Solution(((0, 1), (2, 3)), RISE, RISE), Solution(((0, 1, 3), (2,)), RISE)
PLAN = Plan("0123456789abcdef", LAYERS, "KL divergence", 0.05, UNIFORM, FREE)


def edited(**changes):
    content = json.loads(json.dumps(PLAN.to_json()))
    for path, value in changes.items():
        *parents, last = path.split("__")
        target = content
        for key in parents:
            target = target[int(key) if key.isdecimal() else key]
        if value is None:
            del target[last]
        else:
            target[int(last) if last.isdecimal() else last] = value
    return content


def test_a_plan_is_read_as_it_was_written(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(PLAN.to_json()))
    assert read_plan(tmp_path) == read_plan(tmp_path / "plan.json") == PLAN


def test_a_plan_knows_where_the_model_came_from_unless_it_is_an_old_one(tmp_path):
    found = replace(PLAN, source="models/bert")
    assert Plan.from_json(json.loads(json.dumps(found.to_json()))) == found
    old = PLAN.to_json()
    del old["source"]
    assert Plan.from_json(old) == PLAN


def test_an_edited_solution_has_no_measured_loss():
    plan = Plan.from_json(edited(free__kept__0=[1]))
    assert plan.free == Solution(((1,), (2,))) and plan.uniform == UNIFORM


def test_a_plan_of_before_has_no_key_value_heads():
    assert Plan.from_json(edited(grouped=None)) == PLAN and PLAN.kv_heads is None


def test_key_value_heads_are_read_as_they_were_written():
    plan = replace(PLAN, kv_heads=1)
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


def test_heads_and_solutions():
    assert PLAN.heads == 8 and PLAN.free.heads == 4 and PLAN.solution("uniform") is UNIFORM


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"free__kept__0": []},
            "free: kept: layer 0: expected different heads from 0 to 3, at least one, got []",
        ),
        ({"free__kept__1": [4]}, "free: kept: layer 1: expected different heads from 0 to 3"),
        ({"uniform__kept__1": [1, 1]}, "uniform: kept: layer 1: expected different heads"),
        ({"uniform__kept__1": [1.5]}, "uniform: kept: layer 1: expected an integer >= 0, got 1.5"),
        ({"uniform__kept__1": "1"}, "uniform: kept: layer 1: expected a list, got '1'"),
        ({"uniform__kept": [[0]]}, "uniform: kept: expected heads for 2 layers, got 1"),
        ({"free": None}, "plan: expected model, measure, tolerance, layers, uniform, free, got no free"),
        ({"tolerance": -1}, "tolerance: expected a finite number > 0, got -1"),
        ({"grouped": 2}, "grouped: expected an object with kv_heads, got 2"),
        ({"grouped": {"kv_heads": "2"}}, "grouped: kv_heads: expected an integer >= 1, got '2'"),
        (
            {"grouped": {"kv_heads": 4}},
            "grouped: kv_heads: expected a divisor of the 4 heads of layer 0, at most its 2 key-value heads",
        ),
        ({"model": 3}, "model: expected a text, got 3"),
        ({"source": 0}, "source: expected a text, got 0"),
        ({"layers__0__heads": 0}, "layers: 0: heads: expected an integer >= 1, got 0"),
        ({"layers__0": 3}, "layers: 0: expected an object with name, heads, kv_heads, head_dim, got 3"),
        ({"free__judged": 3}, "free: judged: expected an object with mean, low, high, samples, got 3"),
    ],
)
def test_a_slip_is_one_line(changes, said, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(edited(**changes)))
    with pytest.raises(InvalidInput) as refusal:
        read_plan(path)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize("content", ["", "[]", "{", "3"])
def test_a_file_that_is_no_plan(content, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=r"plan.json: (expected a plan|plan: expected an object)"):
        read_plan(path)


def test_no_file(tmp_path):
    with pytest.raises(InvalidInput, match=r"plan.json: no such file"):
        read_plan(tmp_path / "plan.json")


def test_a_plan_belongs_to_one_model():
    PLAN.check("0123456789abcdef")
    with pytest.raises(
        InvalidInput, match=r"plan: expected the plan of this model .f00.. got that of another"
    ):
        PLAN.check("f00")


def test_an_unknown_solution():
    with pytest.raises(InvalidInput, match="solution: expected one of uniform, free, got 'best'"):
        PLAN.solution("best")
