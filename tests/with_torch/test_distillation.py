"""`hc.inspect(..., distil=…)`: solutions that were distilled, reported, kept and saved."""

import json
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from small_models import batch_of, model_of, outputs_of

import headcount as hc
from headcount.errors import InvalidInput
from headcount.trained.plan import SOLUTIONS, Plan, read_plan
from headcount.trained.shrinking import shrink
from headcount.trained.weights import file_of, read_weights, set_weights, weights_of

pytestmark = pytest.mark.torch

GIVEN = [batch_of("bert", samples=16, seed=seed) for seed in range(3)]
TOLERANCE = 0.5
CODE = """
from test_distillation import GIVEN, model_of
def model():
    return model_of("bert")
def data():
    return GIVEN
"""


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def found(told):
    return hc.inspect(
        model_of("bert"), GIVEN, tolerance=TOLERANCE, distil=0.5, distilling=lambda *each: told.append(each)
    )


@pytest.fixture(scope="module")
def folder(found, tmp_path_factory):
    return found.save(tmp_path_factory.mktemp("out"))


def test_the_rise_after_recovery_stands_beside_the_one_before(found, folder):
    plan, written = read_plan(folder), json.loads((folder / "inspect.json").read_text())
    assert plan == found.plan
    for name in SOLUTIONS:
        solution = plan.solution(name)
        assert solution.heads < plan.heads and solution.recovered.samples == solution.reported.samples
        # Few samples and a second of training: near what it was, and not far above.
        assert 0 < solution.recovered.mean < 1.5 * solution.reported.mean
        assert written[name]["recovered"]["mean"] == solution.recovered.mean


@pytest.mark.parametrize("solution", SOLUTIONS)
def test_recovered_weights_are_applied_and_saved(found, folder, solution):
    applied = found.apply(solution)
    weights = load_file(folder / file_of(solution))
    assert weights.keys() == dict(applied.named_parameters()).keys()
    assert all(torch.equal(each, weights[name]) for name, each in applied.named_parameters())
    kept = found.plan.solution(solution).kept
    plain = replace(found, recovered={}).apply(solution)
    assert not torch.equal(outputs_of(plain, GIVEN[0]), outputs_of(applied, GIVEN[0]))
    set_weights(plain, read_weights(folder / file_of(solution), model=found.plan.model, kept=kept))
    assert torch.equal(outputs_of(plain, GIVEN[0]), outputs_of(applied, GIVEN[0]))


def test_progress_tells_the_solution(found, told):
    assert {name for name, _, _ in told} <= set(SOLUTIONS)
    assert told[-1][1] == 1.0


def test_a_plan_without_distillation_leaves_no_weights_behind(found, tmp_path):
    found.save(tmp_path)
    replace(found, recovered={}).save(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "inputs.safetensors",
        "inspect.json",
        "plan.json",
        "projections.safetensors",
    ]


@pytest.mark.parametrize("options", [{"data": "data"}, {"refit": False}])
@pytest.mark.parametrize("edited", [False, True])
def test_distilled_weights_are_never_left_out_unsaid(found, tmp_path, options, edited):
    (tmp_path / "mine.py").write_text(CODE)
    plan = replace(found.plan, source=f"{tmp_path / 'mine.py'}:model")
    replace(found, plan=plan).save(tmp_path)
    given = {
        name: f"{tmp_path / 'mine.py'}:data" if name == "data" else each for name, each in options.items()
    }
    if edited:
        content = json.loads((tmp_path / "plan.json").read_text())
        content["free"] |= {"kept": [[0], [0], [0]], "recovered": None}
        (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput) as refusal:
        shrink(tmp_path, tmp_path / "small", kind="code", **given)
    assert "the distilled weights of recovered-free.safetensors" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    if edited:
        (tmp_path / file_of("free")).unlink()
        assert shrink(tmp_path, tmp_path / "small", kind="code", **given).heads == (12, 3)


def test_an_edited_plan_has_no_recovered_loss(found):
    content = found.plan.to_json()
    content["free"]["kept"] = [[0], [0], [0]]
    content["free"]["heads"] = 12
    assert Plan.from_json(content).free.recovered is None


def test_a_whole_model_is_not_distilled():
    found = hc.inspect(model_of("bert"), GIVEN, tolerance=1e-9, distil=0.5)
    assert found.plan.free.heads == 12
    assert found.plan.free.recovered is None and found.recovered == {}


@pytest.mark.parametrize("seconds", [0, -1, float("inf")])
def test_a_budget_of_nothing_is_one_line(seconds):
    with pytest.raises(InvalidInput, match=r"^distil: expected a finite number > 0, got .*$"):
        hc.inspect(model_of("bert"), GIVEN, distil=seconds)


def test_outputs_that_have_no_distance_are_one_line():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model_of("bert")

        def forward(self, input_ids):
            return {"own": self.inner(input_ids).logits}

    with pytest.raises(InvalidInput, match=r"^distil: model: expected outputs with logits") as refusal:
        hc.inspect(Own(), GIVEN, loss=lambda outputs, _: outputs["own"][:, 0], tolerance=1.0, distil=1)
    assert "\n" not in str(refusal.value)


def test_tied_weights_are_kept_once_and_stay_tied():
    model = model_of("gpt2")
    weights = {name: each + 1 for name, each in weights_of(model).items()}
    set_weights(model, weights)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert torch.equal(model.lm_head.weight.detach(), weights["transformer.wte.weight"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "another"}, "expected weights distilled for this plan, got those of another (model: "),
        ({"kept": ((0,),)}, "expected weights distilled for this plan, got those of another (kept: "),
    ],
)
def test_weights_of_another_plan_are_refused(change, said, found, folder):
    given = {"model": found.plan.model, "kept": found.plan.free.kept, **change}
    with pytest.raises(InvalidInput) as refusal:
        read_weights(folder / file_of("free"), **given)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_files_that_are_no_weights_are_refused(tmp_path):
    (tmp_path / "damaged").write_bytes(b"nothing")
    save_file({"a": torch.zeros(1)}, tmp_path / "other")
    for name, said in {
        "none": "no such file",
        "damaged": "expected safetensors",
        "other": "those of another",
    }.items():
        with pytest.raises(InvalidInput, match=said):
            read_weights(tmp_path / name, model="m", kept=((0,),))


def test_weights_of_other_shapes_are_refused():
    model = model_of("bert")
    with pytest.raises(InvalidInput, match=r"weights: .*: expected the shape .*, got None"):
        set_weights(model, {})
