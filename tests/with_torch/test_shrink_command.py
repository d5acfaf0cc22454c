"""`headcount shrink`: from a plan.json to a folder, and every way in which that can go wrong."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import transformers
from exported import plan_of
from safetensors.torch import load_file
from small_models import batch_of, model_of

import headcount as hc
from headcount.errors import InvalidInput
from headcount.trained.discovery import attention_blocks
from headcount.trained.export.code import own_class
from headcount.trained.export.folder import MARK, write_whole_folder
from headcount.trained.plan import read_plan
from headcount.trained.shrinking import shrink

pytestmark = pytest.mark.torch

CODE = """
from test_shrink_command import images, network
def model():
    return network()
def other():
    return network(seed=1)
def data():
    return images()
"""


def network(seed=0):
    return model_of("vit", seed=seed).float()


def images(seed=1):
    return [{"pixel_values": batch_of("vit", samples=64, seed=seed)["pixel_values"].float()}]


def difference(loaded):
    """From the whole model, on images that it was not fitted to."""
    (batch,) = images(seed=77)
    with torch.no_grad():
        found, wanted = loaded(**batch)["logits"], network()(**batch).logits
    return float((found - wanted).square().mean())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model of a user's own, as a function, and what inspecting it wrote."""
    place = tmp_path_factory.mktemp("made")
    (place / "mine.py").write_text(CODE)
    found = hc.inspect(network(), images(), tolerance=1.0)
    found = replace(found, plan=replace(found.plan, source=str(place / "mine.py:model")))
    found.save(place / "inspect")
    return place, found


@pytest.fixture
def inspected(made, tmp_path):
    """A copy of that to spoil."""
    shutil.copytree(made[0], tmp_path, dirs_exist_ok=True)
    return tmp_path / "inspect"


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    """A model in a folder, with a plan for it and nothing else."""
    place = tmp_path_factory.mktemp("vit")
    model = network()
    model.save_pretrained(place / "model")
    (place / "model" / "preprocessor_config.json").write_text('{"size": 8}')
    plan = replace(plan_of(model), source=str(place / "model"))
    (place / "plan.json").write_text(json.dumps(plan.to_json()))
    np.savez(place / "images.npz", pixel_values=images()[0]["pixel_values"].numpy())
    return place


def shrunk_here(folder):
    """The model in a folder with code, without the cache of transformers."""
    return own_class(folder, "ShrunkViTForImageClassification").from_pretrained(folder).eval()


def edit(folder, solution, layer, heads):
    content = json.loads((folder / "plan.json").read_text())
    content[solution]["kept"][layer] = heads
    (folder / "plan.json").write_text(json.dumps(content))


def test_it_says_first_what_it_wrote_and_how_it_is_loaded(made, tmp_path, called, capsys):
    plan = made[0] / "inspect" / "plan.json"
    assert called("shrink", plan, "--out", tmp_path / "small", "--as", "export") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "torch.export: torch alone loads this program."
    assert printed[1].startswith(f"{made[1].plan.free.heads} of 12 heads (free), ")
    assert f'    model = torch.export.load("{tmp_path / "small"}/model.pt2").module()' in printed
    small = torch.export.load(tmp_path / "small" / "model.pt2").module()
    (fresh,) = images(seed=77)
    with torch.no_grad():
        wanted = made[1].apply()(**fresh).logits
        torch.testing.assert_close(small(**fresh)["logits"], wanted, rtol=0, atol=1e-4)


def test_a_folder_of_transformers_becomes_another(vit, tmp_path, called, capsys):
    arguments = ["shrink", vit / "plan.json", "--out", tmp_path / "small", "--no-refit", "--json"]
    assert called(*arguments) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["kind"], printed["solution"], printed["needs"]) == ("stock", "uniform", "transformers")
    assert printed["whole"]["heads"] == 12 and printed["shrunk"]["heads"] == 6
    loaded = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "small")
    assert loaded.config.num_attention_heads == 2
    assert (tmp_path / "small" / "preprocessor_config.json").read_text() == '{"size": 8}'


def test_the_python_call_writes_the_same(made, tmp_path):
    place, found = made
    by_hand = found.save_model(tmp_path / "one", solution="uniform")
    by_plan = shrink(place / "inspect", tmp_path / "two", solution="uniform")
    assert by_hand.about() == by_plan.about() and by_hand.kind == "stock"
    one, two = (load_file(tmp_path / each / "check.safetensors") for each in ("one", "two"))
    assert one.keys() == two.keys()
    for name in one:
        torch.testing.assert_close(one[name], two[name], rtol=0, atol=1e-4)  # projections are float32


def test_edited_heads_need_data_or_no_refit(inspected, tmp_path, called, capsys):
    edit(inspected, "free", 1, [1] if read_plan(inspected).free.kept[1] == (0,) else [0])
    out = ["--out", tmp_path / "small", "--solution", "free", "--as", "code"]
    assert called("shrink", inspected, *out) == 2
    said = capsys.readouterr().err
    assert "plan: free: expected the heads that projections.safetensors was fitted to, got others" in said
    assert "--data" in said and "--no-refit" in said and not (tmp_path / "small").exists()
    errors = []
    for more in (["--no-refit"], ["--data", f"{inspected.parent / 'mine.py'}:data"]):
        assert called("shrink", inspected, *out, *more) == 0
        smaller = shrunk_here(tmp_path / "small")
        errors.append(difference(smaller))
    assert errors[1] < errors[0], "a refit makes up for what is gone"


def test_the_uniform_solution_is_as_it_was_when_the_free_one_is_edited(inspected, tmp_path):
    edit(inspected, "free", 0, [1] if read_plan(inspected).free.kept[0] == (0,) else [0])
    assert shrink(inspected, tmp_path / "small", solution="uniform").solution == "uniform"


def test_a_shrunk_model_is_replaced_and_other_folders_are_not(vit, tmp_path, called, capsys):
    out = tmp_path / "small"
    arguments = ["shrink", vit, "--out", out, "--no-refit"]
    assert called(*arguments, "--as", "code") == 0 and (out / "modeling_shrunk.py").exists()
    assert called(*arguments) == 0 and not (out / "modeling_shrunk.py").exists()
    (out / MARK).unlink()
    capsys.readouterr()
    assert called(*arguments) == 2
    assert f"--out: expected an empty folder or a shrunk model, got {out}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["small"]


def test_nothing_unfinished_is_left_and_what_was_there_stays(tmp_path):
    out = tmp_path / "small"
    write_whole_folder(out, lambda folder: (folder / MARK).write_text("whole"))

    def stopped(folder):
        (folder / MARK).write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole_folder(out, stopped)
    assert [path.name for path in tmp_path.iterdir()] == ["small"] and (out / MARK).read_text() == "whole"


def test_what_a_killed_process_left_is_removed(tmp_path):
    left = []

    def note(folder):
        left.append(folder)

    write_whole_folder(tmp_path / "small", note)
    name = left[0].name.split(".")
    name[-3] = "99999999"  # a process that is not there
    dead = tmp_path / ".".join(name)
    dead.mkdir()
    write_whole_folder(tmp_path / "small", note)
    assert not dead.exists()


def test_a_plan_without_a_source_needs_the_model(inspected, tmp_path):
    content = json.loads((inspected / "plan.json").read_text())
    reference = content.pop("source")
    (inspected / "plan.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=r"^--model: expected the model that .* is for, got none"):
        shrink(inspected, tmp_path / "small")
    assert shrink(inspected, tmp_path / "small", model=reference).heads[0] == 12


@pytest.mark.parametrize(
    ("spoil", "options", "said"),
    [
        (None, {"model": "{place}/mine.py:other"}, "expected the plan of this model"),
        (None, {"kind": "onnx"}, "--as: expected one of stock, code, export, got 'onnx'"),
        (None, {"solution": "best"}, "--solution: expected one of uniform, free, grouped, got 'best'"),
        (None, {"model": "nothing"}, "MODEL: nothing: no such folder"),
        (None, {"data": "nothing.npz", "refit": False}, "--data: expected none with --no-refit"),
        (None, {"data": "nothing.npz"}, "DATA: nothing.npz: no such file"),
        (("plan.json", "{"), {}, "plan.json: expected a plan in JSON"),
        (("plan.json", None), {}, "plan.json: no such file"),
        (("projections.safetensors", None), {}, "projections.safetensors: no such file; --data refits"),
        (
            ("projections.safetensors", "x"),
            {},
            "projections.safetensors: expected projections in safetensors",
        ),
        (("inputs.safetensors", "x"), {}, "inputs.safetensors: expected inputs in safetensors"),
    ],
)
def test_what_cannot_be_used_is_one_line(spoil, options, said, inspected, tmp_path):
    if spoil is not None:
        name, content = spoil
        (inspected / name).unlink() if content is None else (inspected / name).write_text(content)
    given = {
        name: each.format(place=tmp_path) if isinstance(each, str) else each for name, each in options.items()
    }
    with pytest.raises(InvalidInput) as refusal:
        shrink(inspected, tmp_path / "small", **given)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)
    assert not (tmp_path / "small").exists()


def test_a_model_that_transformers_pruned_before_is_refused(vit, tmp_path, called, capsys):
    shutil.copytree(vit / "model", tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["pruned_heads"] = {"0": [1]}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert called("shrink", vit, "--model", tmp_path / "model", "--out", tmp_path / "small") == 2
    assert "heads were removed from this model before; give the whole one" in capsys.readouterr().err


def test_a_model_of_transformers_without_samples_is_tried_with_made_up_ones(vit, tmp_path):
    shrink(vit, tmp_path / "small", refit=False)
    check = load_file(tmp_path / "small" / "check.safetensors")
    assert check["input.pixel_values"].shape == (4, 3, 8, 8)


def test_a_refit_from_arrays(vit, tmp_path):
    data = str(vit / "images.npz")
    found = shrink(vit, tmp_path / "small", data=data, kind="code")
    assert found.heads == (12, 6) and len(attention_blocks(model_of("vit"))) == 3
