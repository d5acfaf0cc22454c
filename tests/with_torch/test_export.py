"""Shrunk models of every family load without headcount, and do what they did here."""

import json

import pytest
import torch
from exported import TRANSFORMERS, builder, inputs_of, plan_of, read_elsewhere, whole_of
from safetensors.torch import load_file
from small_models import MODELS, batch_of, outputs_of

from headcount.errors import InvalidInput
from headcount.trained.attention import AttentionBlock
from headcount.trained.export.inputs import Inputs
from headcount.trained.export.smaller import CannotHold
from headcount.trained.export.writing import written

pytestmark = pytest.mark.torch
STOCK = ("llama", "mistral", "qwen2", "qwen3", "vit", "deit", "t5")
FORCED = tuple(name for name in TRANSFORMERS if name not in STOCK)


def folders_of(place, names, kind, *, layers=None):
    found = {}
    for name in names:
        whole = whole_of(name, layers=layers)
        plan = plan_of(whole)
        folder = place / name.replace(", ", "-").replace(" ", "-")
        written(plan, builder(whole, plan, inputs_of(name, whole)), folder, kind=kind)
        found[name] = folder
    return found


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    folders = folders_of(tmp_path_factory.mktemp("stock"), STOCK, "stock")
    return folders, read_elsewhere(folders)


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    folders = folders_of(tmp_path_factory.mktemp("code"), TRANSFORMERS, "code")
    return folders, read_elsewhere(folders, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    names = [name for name in MODELS if name != "timm"]
    folders = folders_of(tmp_path_factory.mktemp("export"), names, "export", layers=1)
    return folders, read_elsewhere(folders, without="headcount,transformers,numpy")


@pytest.mark.parametrize("name", STOCK)
def test_stock_folders_load_with_transformers_alone(name, stock):
    folders, read = stock
    assert read[name] == "fine"
    assert not list(folders[name].glob("*.py"))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_folders_with_code_load_with_transformers_alone(name, code):
    folders, read = code
    assert read[name] == "fine"
    source = (folders[name] / "modeling_shrunk.py").read_text()
    assert "headcount" not in source and len(source.splitlines()) <= 45
    assert max(map(len, source.splitlines())) <= 120


@pytest.mark.parametrize("name", [name for name in MODELS if name != "timm"])
def test_programs_load_with_torch_alone(name, programs):
    assert programs[1][name] == "fine"


def test_a_vision_model_of_timm_becomes_a_program(tmp_path):
    folders = folders_of(tmp_path, ["timm"], "export", layers=1)
    assert read_elsewhere(folders, without="headcount,transformers,timm") == {"timm": "fine"}


@pytest.mark.parametrize("name", ["bert", "t5", "vit", "torch"])
def test_a_program_takes_other_numbers_of_samples_and_tokens(name, programs):
    folders, _ = programs
    whole = whole_of(name, layers=1)
    plan = plan_of(whole)
    inputs = Inputs.like(whole, batch_of(name, samples=2, tokens=5, seed=9))
    program = torch.export.load(folders[name] / "model.pt2").module()
    found = program(*inputs.positional, **inputs.named)
    smaller = builder(whole, plan, inputs)("free")
    wanted = outputs_of(smaller.model, inputs.named or inputs.positional)
    torch.testing.assert_close(next(iter(found.values())) if isinstance(found, dict) else found, wanted)


@pytest.mark.parametrize("kind", ["stock", "code", "programs"])
def test_the_check_holds_what_the_shrunk_model_puts_out(kind, request):
    folders, _ = request.getfixturevalue(kind)
    name = "vit"
    whole = whole_of(name, layers=1 if kind == "programs" else None)
    smaller = builder(whole, plan_of(whole), inputs_of(name, whole))("uniform" if kind == "stock" else "free")
    check = load_file(folders[name] / "check.safetensors")
    inputs = Inputs.from_tensors(check)
    torch.testing.assert_close(check["output.logits"], outputs_of(smaller.model, inputs.named))
    assert not torch.equal(inputs.named["pixel_values"], batch_of(name)["pixel_values"]), "nobody's data"


def test_configs_hold_the_new_counts(stock, code):
    llama = json.loads((stock[0]["llama"] / "config.json").read_text())
    assert (llama["num_attention_heads"], llama["num_key_value_heads"], llama["head_dim"]) == (2, 1, 4)
    assert json.loads((stock[0]["t5"] / "config.json").read_text())["num_heads"] == 2
    assert json.loads((stock[0]["vit"] / "config.json").read_text())["head_dim"] == 4
    counts = json.loads((code[0]["gpt2"] / "config.json").read_text())["attention_head_counts"]
    assert list(counts.values()) == [[3, 3], [1, 1], [2, 2]]


@pytest.mark.parametrize("name", FORCED)
def test_a_config_whose_head_size_follows_from_the_count_holds_no_other_count(name, tmp_path):
    whole = whole_of(name)
    plan = plan_of(whole)
    with pytest.raises(CannotHold, match=r"^stock: expected a number of heads that .*Config can hold, such as 4"):
        written(plan, builder(whole, plan, inputs_of(name, whole)), tmp_path / "small", kind="stock")
    assert list(tmp_path.iterdir()) == []


def test_a_count_that_does_not_divide_the_width_names_the_nearest_that_does(tmp_path):
    whole = whole_of("llama")
    plan = plan_of(whole, uniform=(0, 1, 2))
    with pytest.raises(CannotHold, match=r"that LlamaConfig can hold, such as 2 or 4, got 3$"):
        written(plan, builder(whole, plan, inputs_of("llama", whole)), tmp_path / "small", kind="stock")
    again = whole_of("qwen2")  # whose config checks no such thing
    found = written(
        plan_of(again, uniform=(0, 1, 2)),
        builder(again, plan_of(again, uniform=(0, 1, 2)), inputs_of("qwen2", again)),
        tmp_path / "small",
    )
    assert found.kind == "stock" and found.heads == (12, 9)


def test_layers_that_differ_in_key_value_heads_alone_are_made_alike(tmp_path):
    whole = whole_of("mistral")
    plan = plan_of(whole, free=((0, 1), (0, 2), (2, 3)))  # 1, 2 and 1 key-value heads
    build = builder(whole, plan, inputs_of("mistral", whole))
    assert written(plan, build, tmp_path / "small", kind="stock", solution="free").solution == "free"
    assert json.loads((tmp_path / "small" / "config.json").read_text())["num_key_value_heads"] == 2
    assert read_elsewhere({"small": tmp_path / "small"}) == {"small": "fine"}


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("vit", {"kind": "stock", "solution": "free"}, "stock: expected one number of heads for all layers"),
        ("torch", {"kind": "stock"}, "stock: expected a model of transformers, got small_models.Encoder"),
        ("torch", {"kind": "code"}, "code: expected a model of transformers, got small_models.Encoder"),
        ("vit", {"kind": "onnx"}, "kind: expected one of stock, code, export, got 'onnx'"),
        ("vit", {"solution": "best"}, "solution: expected one of uniform, free, got 'best'"),
    ],
)
def test_what_a_kind_cannot_hold_is_one_line_and_leaves_nothing(name, options, said, tmp_path):
    whole = whole_of(name)
    plan = plan_of(whole)
    with pytest.raises(InvalidInput) as refusal:
        written(plan, builder(whole, plan, inputs_of(name, whole)), tmp_path / "small", **options)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_t5_layers_with_different_heads_share_no_table(tmp_path):
    whole = whole_of("t5")
    plan = plan_of(whole, free=((0, 1), (1, 2), (2, 3)))
    build = builder(whole, plan, inputs_of("t5", whole))
    with pytest.raises(CannotHold, match=r"^stock: expected the same heads in all layers of (en|de)coder"):
        written(plan, build, tmp_path / "small", kind="stock", solution="free")


def test_the_first_kind_that_can_hold_the_plan_is_written(tmp_path):
    kinds = {}
    for name in ("vit", "bert", "torch"):
        whole = whole_of(name, layers=1)
        plan = plan_of(whole, free=((3,),))
        build = builder(whole, plan, inputs_of(name, whole))
        kinds[name] = written(plan, build, tmp_path / name)
    assert [each.kind for each in kinds.values()] == ["stock", "code", "export"]
    assert kinds["vit"].notes == ("The free solution keeps 1 heads: --as code or --as export holds it.",)
    assert kinds["bert"].notes[0].startswith("Not stock: expected a number of heads that BertConfig")


def test_a_uniform_solution_that_keeps_everything_is_not_what_people_came_for(tmp_path):
    whole = whole_of("vit")
    plan = plan_of(whole, uniform=range(4))
    found = written(plan, builder(whole, plan, inputs_of("vit", whole)), tmp_path / "small")
    assert (found.kind, found.solution) == ("code", "free")


def test_a_model_that_reads_back_differently_is_refused(tmp_path, monkeypatch):
    whole = whole_of("vit")
    plan = plan_of(whole)
    build = builder(whole, plan, inputs_of("vit", whole))

    def built(name):
        smaller = build(name)
        torch.nn.init.zeros_(smaller.model.classifier.weight)
        assert smaller.outputs
        torch.nn.init.ones_(smaller.model.classifier.weight)
        return smaller

    with pytest.raises(CannotHold, match="expected the outputs of the shrunk model"):
        written(plan, built, tmp_path / "small", kind="stock")
    assert AttentionBlock and list(tmp_path.iterdir()) == []
