"""Shrunk models of every family load without headcount, and do what they did here."""

import json

import numpy as np
import pytest
import torch
from exported import TRANSFORMERS, builder, inputs_of, plan_of, read_elsewhere, whole_of
from safetensors.torch import load_file
from small_models import batch_of, outputs_of

from headcount.errors import InvalidInput
from headcount.trained.attention import KEY, VALUE
from headcount.trained.export.code import own_class
from headcount.trained.export.inputs import Inputs
from headcount.trained.export.smaller import CannotHold
from headcount.trained.export.writing import written

pytestmark = pytest.mark.torch
STOCK = ("llama", "mistral", "qwen2", "qwen3", "vit", "deit", "t5")
# One for each kind of attention: to trace a model takes a second.
PROGRAMS = ("bert", "qwen3", "vit", "t5", "torch")
FORCED = tuple(name for name in TRANSFORMERS if name not in STOCK)


ALIKE = "mistral, 1 and 2 key-value heads"


def write(place, name, kind, *, layers=None, **options):
    whole = whole_of(name, layers=layers)
    plan = plan_of(whole, **options)
    folder = place / f"{name.replace(' ', '-')}-{kind}"
    written(plan, builder(whole, plan, inputs_of(name, whole)), folder, kind=kind)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Of every family and of both kinds that transformers loads."""
    place = tmp_path_factory.mktemp("folders")
    found = {f"{name} stock": write(place, name, "stock") for name in STOCK}
    found |= {f"{name} code": write(place, name, "code") for name in TRANSFORMERS}
    whole = whole_of("mistral")
    plan = plan_of(whole, free=((0, 1), (0, 2), (2, 3)))
    build = builder(whole, plan, inputs_of("mistral", whole))
    alike = written(plan, build, place / "alike", kind="stock", solution="free")
    return {**found, ALIKE: alike.folder}


@pytest.fixture(scope="module")
def read(folders, tmp_path_factory):
    return read_elsewhere(folders, cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    place = tmp_path_factory.mktemp("programs")
    return {name: write(place, name, "export", layers=1) for name in PROGRAMS}


@pytest.mark.parametrize("name", STOCK)
def test_stock_folders_load_with_transformers_alone(name, folders, read):
    assert read[f"{name} stock"] == "fine"
    assert not list(folders[f"{name} stock"].glob("*.py"))


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_folders_with_code_load_with_transformers_alone(name, folders, read):
    assert read[f"{name} code"] == "fine"
    source = (folders[f"{name} code"] / "modeling_shrunk.py").read_text()
    assert "headcount" not in source and len(source.splitlines()) <= 45
    assert max(map(len, source.splitlines())) <= 120


def test_programs_load_with_torch_alone(programs):
    read = read_elsewhere(programs, without="headcount,transformers")
    assert read == dict.fromkeys(PROGRAMS, "fine")


def test_a_vision_model_of_timm_becomes_a_program(tmp_path):
    folder = write(tmp_path, "timm", "export", layers=1)
    assert read_elsewhere({"timm": folder}, without="headcount,transformers,timm") == {"timm": "fine"}


@pytest.mark.parametrize("name", ["bert", "t5", "vit", "torch"])
def test_a_program_takes_other_numbers_of_samples_and_tokens(name, programs):
    whole = whole_of(name, layers=1)
    inputs = Inputs.like(whole, batch_of(name, samples=2, tokens=5, seed=9))
    program = torch.export.load(programs[name] / "model.pt2").module()
    found = program(*inputs.positional, **inputs.named)
    smaller = builder(whole, plan_of(whole), inputs)("free")
    wanted = outputs_of(smaller.model, inputs.named or inputs.positional)
    torch.testing.assert_close(next(iter(found.values())) if isinstance(found, dict) else found, wanted)


@pytest.mark.parametrize("kind", ["stock", "code"])
def test_the_check_holds_what_the_shrunk_model_puts_out_of_nobodys_data(kind, folders):
    whole = whole_of("vit")
    solution = "uniform" if kind == "stock" else "free"
    smaller = builder(whole, plan_of(whole), inputs_of("vit", whole))(solution)
    check = load_file(folders[f"vit {kind}"] / "check.safetensors")
    inputs = Inputs.from_tensors(check)
    torch.testing.assert_close(check["output.logits"], outputs_of(smaller.model, inputs.named))
    assert not torch.isclose(inputs.named["pixel_values"], batch_of("vit")["pixel_values"]).any()


def test_configs_hold_the_new_counts(folders):
    def config(name):
        return json.loads((folders[name] / "config.json").read_text())

    llama = config("llama stock")
    assert (llama["num_attention_heads"], llama["num_key_value_heads"], llama["head_dim"]) == (2, 1, 4)
    assert config("t5 stock")["num_heads"] == 2 and config("vit stock")["head_dim"] == 4
    assert list(config("gpt2 code")["attention_head_counts"].values()) == [[3, 3], [1, 1], [2, 2]]


@pytest.mark.parametrize("name", FORCED)
def test_a_config_whose_head_size_follows_from_the_count_holds_no_other_count(name, tmp_path):
    whole = whole_of(name)
    plan = plan_of(whole)
    with pytest.raises(
        CannotHold, match=r"^stock: expected a number of heads that .*Config can hold, such as 4"
    ):
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


def test_layers_that_differ_in_key_value_heads_alone_are_made_alike(folders, read):
    assert json.loads((folders[ALIKE] / "config.json").read_text())["num_key_value_heads"] == 2
    assert read[ALIKE] == "fine"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("vit", {"kind": "stock", "solution": "free"}, "stock: expected one number of heads for all layers"),
        ("torch", {"kind": "stock"}, "stock: expected a model of transformers, got small_models.Encoder"),
        ("torch", {"kind": "code"}, "code: expected a model of transformers, got small_models.Encoder"),
        ("vit", {"kind": "onnx"}, "kind: expected one of stock, code, export, got 'onnx'"),
        ("vit", {"solution": "best"}, "solution: expected one of uniform, free, grouped, got 'best'"),
    ],
)
def test_what_a_kind_cannot_hold_is_one_line_and_leaves_nothing(name, options, said, tmp_path):
    whole = whole_of(name)
    plan = plan_of(whole)
    with pytest.raises(InvalidInput) as refusal:
        written(plan, builder(whole, plan, inputs_of(name, whole)), tmp_path / "small", **options)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_nothing_says_what_a_module_of_ones_own_takes():
    with pytest.raises(InvalidInput, match="expected samples that say what the model takes, got none"):
        Inputs.made_up(whole_of("torch"))


@pytest.mark.parametrize("name", ["bert", "t5", "vit", "llama"])
def test_made_up_inputs_suit_the_model(name):
    whole = whole_of(name)
    inputs = Inputs.made_up(whole)
    assert outputs_of(whole, inputs.named).isfinite().all()


def test_inputs_of_a_single_sample_are_doubled_and_flags_stay_flags():
    batch = {"input_ids": torch.tensor([[5, 9, 7]]), "token_type_ids": torch.tensor([[0, 0, 1]])}
    drawn = Inputs.like(whole_of("bert"), batch).named
    assert drawn["input_ids"].shape == (2, 3) and set(drawn["input_ids"].flatten().tolist()) <= set(
        range(5, 10)
    )
    assert set(drawn["token_type_ids"].flatten().tolist()) <= {0, 1}


@pytest.mark.parametrize(("name", "kind"), [("llama", "stock"), ("llama", "code"), ("gpt2", "code")])
def test_keys_and_values_of_earlier_tokens_are_of_the_new_size(name, kind, folders):
    folder, base = folders[f"{name} {kind}"], type(whole_of(name))
    made = base if kind == "stock" else own_class(folder, f"Shrunk{base.__name__}")
    model, ids = made.from_pretrained(folder).eval(), torch.arange(4, 9)[None]
    with torch.no_grad():
        first = model(input_ids=ids[:, :3], use_cache=True)
        then = model(input_ids=ids[:, 3:], past_key_values=first.past_key_values)
        torch.testing.assert_close(then.logits, model(input_ids=ids).logits[:, 3:])
    assert first.past_key_values.layers[0].keys.shape[1] == (1 if kind == "stock" else 3)


def test_key_value_heads_that_heads_came_to_share(tmp_path):
    whole = whole_of("vit")
    plan = plan_of(whole)
    made = builder(whole, plan, inputs_of("vit", whole))

    def build(name):
        smaller = made(name)
        for block in smaller.blocks:
            parts = (np.array(block.weights(which)[:1]) for which in (KEY, VALUE))
            block.share(*parts, *(block.biases(which)[:1] for which in (KEY, VALUE)))
        return smaller

    with pytest.raises(
        CannotHold, match="expected as many key-value heads as heads, 2, the only number that"
    ):
        written(plan, build, tmp_path / "small", kind="stock")
    assert written(plan, build, tmp_path / "small", kind="code").kind == "code"
    config = json.loads((tmp_path / "small" / "config.json").read_text())
    assert list(config["attention_head_counts"].values()) == [[3, 1], [1, 1], [2, 1]]


def test_t5_layers_with_different_heads_share_no_table(tmp_path):
    whole = whole_of("t5")
    plan = plan_of(whole, free=((0, 1), (1, 2), (2, 3)))
    build = builder(whole, plan, inputs_of("t5", whole))
    with pytest.raises(CannotHold, match=r"^stock: expected the same heads in all layers of (en|de)coder"):
        written(plan, build, tmp_path / "small", kind="stock", solution="free")


def test_the_first_kind_that_can_hold_the_plan_is_written(tmp_path):
    kinds = {}
    for name in ("vit", "bert", "torch"):
        whole = whole_of(name, layers=1 if name == "torch" else None)
        plan = plan_of(whole, free=((3,),))
        build = builder(whole, plan, inputs_of(name, whole))
        kinds[name] = written(plan, build, tmp_path / name)
    assert [each.kind for each in kinds.values()] == ["stock", "code", "export"]
    assert kinds["vit"].notes == ("The free solution keeps 3 heads: --as code or --as export holds it.",)
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
    assert list(tmp_path.iterdir()) == []
