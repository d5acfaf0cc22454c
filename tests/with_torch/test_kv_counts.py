"""Key-value heads inspected: what is found, what is written, and what it says on the command line."""

import json

import pytest
import torch
from planted import batches, planted
from small_models import batch_of, model_of, outputs_of

import headcount as hc
from headcount.errors import InvalidInput
from headcount.trained.discovery import attention_blocks
from headcount.trained.grouping_file import read_grouping
from headcount.trained.plan import read_plan
from headcount.trained.regrouping import apply_grouping

pytestmark = pytest.mark.torch

CODE = """
from planted import batches, planted
def model():
    return planted()[1]
def data():
    return batches(8)
"""


@pytest.fixture(scope="module")
def found():
    """4 heads spread over 8, so that 4 key-value heads are enough."""
    return hc.inspect(planted()[1], batches(8), tolerance=1e-4, kv_heads=(2, 4, 4))


def test_every_way_is_tried_for_every_count(found):
    assert found.grouped.counts == [4, 2] and len(found.grouped.rows) == 8
    four = found.grouped.of(4)
    assert four["joint", True].reported.high < 1e-4 < four["procrustes", True].reported.low
    assert four["mean", True].reported.mean < four["mean", False].reported.mean


def test_the_plan_has_the_fewest_within_the_tolerance(found):
    assert found.plan.kv_heads == 4
    small, whole = found.apply_grouping(), planted()[1]
    assert {(block.heads, block.kv_heads) for block in attention_blocks(small)} == {(8, 4)}
    fresh = (batches(1, seed=77)[0],)
    torch.testing.assert_close(outputs_of(small, fresh), outputs_of(whole, fresh), rtol=0, atol=1e-4)


def test_the_law_of_plan_stands_beside_each_count(found):
    assert found.grouped.laws[0].startswith(
        "4 key-value heads of 4 numbers pass on 16 numbers a layer (now 32)"
    )
    assert "D <= 8" in found.grouped.laws[1]


def test_what_is_saved_makes_the_same_model(found, tmp_path):
    folder = found.save(tmp_path)
    plan, written = read_plan(folder), json.loads((folder / "inspect.json").read_text())
    assert plan.kv_heads == 4 and len(written["grouped"]) == 8
    assert written["grouped"][0] | {"rise": 0} == {"kv_heads": 4, "method": "joint", "refit": True, "rise": 0}
    assert set(written["grouped"][0]["rise"]) == {"judged", "reported"}
    layers, fresh = read_grouping(folder, model=plan.model), (batches(1, seed=77)[0],)
    small = apply_grouping(planted()[1], layers)
    torch.testing.assert_close(
        outputs_of(small, fresh), outputs_of(found.apply_grouping(), fresh), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "no such file"), (b"nothing", "expected safetensors"), ("other", "got that of another")],
)
def test_a_file_that_is_not_the_grouping_of_this_model_is_one_line(found, tmp_path, content, said):
    if content == "other":
        found.save(tmp_path)
    elif content is not None:
        (tmp_path / "grouping.safetensors").write_bytes(content)
    with pytest.raises(InvalidInput, match=said) as refusal:
        read_grouping(tmp_path, model="0" * 16)
    assert "\n" not in str(refusal.value)


def test_nothing_is_planned_where_every_count_is_too_few(tmp_path):
    given = [batch_of("vit", samples=16, seed=seed) for seed in range(4)]
    found = hc.inspect(model_of("vit"), given, tolerance=1e-9, kv_heads=[1])
    assert found.plan.kv_heads is None and found.grouped.planned is None
    assert not (found.save(tmp_path) / "grouping.safetensors").exists()
    with pytest.raises(InvalidInput, match="grouped: expected a plan with key-value heads, got none"):
        found.apply_grouping()


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    return str(tmp_path / "mine.py")


def test_the_command_prints_a_line_for_each_count(mine, tmp_path, called, capsys):
    arguments = ["--out", tmp_path / "out", "--tolerance", 1e-2, "--kv-heads", 4, "--kv-heads", 2]
    assert called("inspect", f"{mine}:model", f"{mine}:data", *arguments) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "joint SVD + refit Procrustes + refit mean + refit mean" in printed
    assert "The plan can go down to 4 key-value heads a layer." in printed
    assert "kv_heads * n >= D" in printed


def test_a_count_that_does_not_divide_is_one_line_and_exit_code_2(mine, tmp_path, called, capsys):
    assert called("inspect", f"{mine}:model", f"{mine}:data", "--out", tmp_path / "out", "--kv-heads", 3) == 2
    printed = capsys.readouterr().err
    (line,) = (each for each in printed.splitlines() if each.startswith("headcount: error: "))
    assert "--kv-heads: expected a divisor of the 8 heads" in line and "Traceback" not in printed


def test_values_alone_are_said_to_be_shared_where_keys_have_norms(tmp_path):
    given = [batch_of("qwen3", samples=16, seed=seed) for seed in range(4)]
    found = hc.inspect(model_of("qwen3"), given, tolerance=10.0, kv_heads=1)
    assert found.plan.kv_heads == 1 and "Values alone are shared" in found.to_json()["grouped_note"]
    small, folder = found.apply_grouping(), found.save(tmp_path)
    assert {(block.kv_heads, block.value_heads) for block in attention_blocks(small)} == {(2, 1)}
    again = apply_grouping(model_of("qwen3"), read_grouping(folder, model=found.plan.model))
    torch.testing.assert_close(outputs_of(again, given[0]), outputs_of(small, given[0]), rtol=0, atol=1e-4)
