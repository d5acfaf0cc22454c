"""`hc.inspect`: from a model and batches to a count, a plan and a smaller model."""

import json
import re

import numpy as np
import pytest
import torch
from planted import batches, planted
from safetensors.numpy import load_file
from small_models import batch_of, model_of, outputs_of

import headcount as hc
from headcount.errors import InvalidInput
from headcount.trained.batches import called, part_of
from headcount.trained.discovery import fingerprint, prepared
from headcount.trained.plan import read_plan

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def found():
    return hc.inspect(planted()[1], batches(10), tolerance=1e-4)


def test_heads_that_are_spread_over_twice_as_many_are_counted(found):
    assert found.frame["needed"].tolist() == [4, 4, 4]
    assert found.plan.uniform.heads == found.plan.free.heads == 12
    assert found.sentence.startswith("12 of 24 heads can go [12, 12]: the KL divergence rises by")
    assert (found.frame["low"] <= 4).all() and (found.frame["high"] >= 4).all()


def test_one_head_too_few_brings_two_samples_closer_than_they_are(found):
    assert [collision.heads for collision in found.collisions] == [3, 3, 3]
    assert all(collision.representation < collision.output for collision in found.collisions)


@pytest.mark.parametrize("solution", ["uniform", "free"])
def test_the_applied_model_is_smaller_and_does_the_same(found, solution):
    whole, fresh = planted()[1], (batches(1, seed=77)[0],)
    small = found.apply(solution)
    torch.testing.assert_close(outputs_of(small, fresh), outputs_of(whole, fresh), rtol=0, atol=1e-3)
    sizes = [sum(each.numel() for each in model.parameters()) for model in (small, whole)]
    assert sizes[0] < sizes[1]
    assert isinstance(small, torch.nn.Module) and not small.training


def test_what_is_saved_is_what_was_found(found, tmp_path):
    folder = found.save(tmp_path / "new" / "folder")
    assert read_plan(folder) == found.plan
    written = json.loads((folder / "inspect.json").read_text())
    assert written["sentence"] == found.sentence and len(written["layers"]) == 3
    tensors = load_file(folder / "projections.safetensors")
    assert tensors["free.0.weight"].shape == (4 * 4, 16)
    assert {name.partition(".")[0] for name in tensors} == {"uniform", "free"}


def test_a_notebook_shows_the_answer_and_the_curves(found):
    shown = found._repr_html_()
    assert "12 of 24 heads can go" in shown and shown.count("<svg") == 1
    assert "KL divergence from the whole model" in shown and "NaN" not in shown


def test_the_curve_of_a_layer_goes_down_to_what_it_needs(found):
    for curve, layer in zip(found.to_json()["curves"]["alone"], found.layers, strict=True):
        heads = [step["heads"] for step in curve]
        assert heads[0] == 8 and heads == sorted(heads, reverse=True)
        passed = [step["heads"] for step in curve if step["judged"]["high"] <= found.plan.tolerance]
        assert min(passed) == layer.needed


def test_the_page_is_one_file(found, tmp_path):
    page = found.report(tmp_path / "page.html")
    text = re.sub('<span class="whole">(.*?)</span>', r"\1", page.read_text())
    assert page == tmp_path / "page.html" and found.sentence in text
    assert f"headcount shrink {tmp_path}/plan.json" in page.read_text()


def test_the_plan_knows_its_model(found):
    found.plan.check(fingerprint(prepared(planted()[1])))
    with pytest.raises(InvalidInput, match="that of another"):
        found.plan.check(fingerprint(prepared(planted(seed=1)[1])))


def test_the_same_seed_gives_the_same(found):
    again = hc.inspect(planted()[1], batches(10), tolerance=1e-4)
    assert again.plan == found.plan and again.layers == found.layers


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "vit", "distilbert", "timm"])
def test_every_family_is_inspected_end_to_end(name):
    model = model_of(name)
    given = [batch_of(name, samples=16, seed=seed) for seed in range(4)]
    found = hc.inspect(model, given, tolerance=0.5)
    kept = found.plan.free.kept
    assert len(found.frame) == len(kept) and all(1 <= len(heads) <= 4 for heads in kept)
    small = found.apply()
    assert outputs_of(small, given[0]).shape == outputs_of(model, given[0]).shape


def labelled(count):
    """Numbers with the labels that a planted model gives them."""
    model = prepared(planted()[1])
    return [(batch, called(model, batch)[:, 0].argmax(-1)) for batch in batches(count)]


def right(outputs, batch):
    return (outputs[:, 0].argmax(-1) == batch[1]).double()


def test_a_metric_of_ones_own_decides():
    found = hc.inspect(planted()[1], labelled(10), metric=right, tolerance=0.2)
    assert found.plan.measure == "metric" and found.plan.free.heads <= 12
    assert found.plan.free.judged.high <= 0.2


def test_too_few_samples_of_a_discrete_metric_cannot_tell():
    given = [part_of(batch, range(12)) for batch in labelled(4)]
    found = hc.inspect(planted()[1], given, metric=right, tolerance=0.005)
    assert found.sentence.startswith("Cannot tell how many of the 24 heads are needed")
    assert found.frame["needed"].isna().all() and found.plan.free.heads == 24
    assert set(found.frame["verdict"]) == {"cannot tell"}


@pytest.mark.parametrize(
    ("given", "options", "said"),
    [
        (batches(2), {}, "batches: expected at least 40 samples, got 32"),
        (batches(4), {"tolerance": 0}, "tolerance: expected a finite number > 0"),
        (batches(4), {"loss": lambda outputs, batch: outputs[:, 0, 0]}, "tolerance: expected by how much"),
        (
            batches(4),
            {"metric": lambda outputs, batch: np.ones(len(batch)), "tolerance": 0.1},
            "metric: expected values that depend on the model, got 1 for every sample",
        ),
        (batches(4), {"metric": "accuracy", "tolerance": 0.1}, "metric: expected a function of outputs"),
        (batches(4), {"seed": -1}, "seed: expected an integer >= 0"),
        ([], {}, "batches: expected samples, got none"),
        (3, {}, "batches: expected a list or a loader of batches"),
    ],
)
def test_what_cannot_be_used_is_one_line(given, options, said):
    with pytest.raises(InvalidInput) as refusal:
        hc.inspect(planted()[1], given, **options)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)
