"""Distillation: closer to the whole model, never further, and the same draws for the same seed."""

import copy

import pytest
import torch
from planted import batches, planted
from small_models import batch_of, model_of

from headcount.errors import InvalidInput
from headcount.trained import recovery
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.effect import Measure
from headcount.trained.fitting import sharing_copy
from headcount.trained.recovery import recovered
from headcount.trained.streams import Streams
from headcount.trained.taps import written_in

pytestmark = pytest.mark.torch

FAMILIES = ["bert", "distilbert", "gpt2", "qwen2", "vit", "t5", "torch, norm first"]


def cut(whole, *, heads=2):
    """The model with its first heads alone, and nothing refitted."""
    small = sharing_copy(whole)
    for block in attention_blocks(small):
        block.keep(range(heads))
    return small


def given_of(name):
    return [batch_of(name, samples=8, seed=seed, tokens=6 + seed) for seed in range(3)]


def state_of(model):
    return {name: each.detach().clone() for name, each in model.named_parameters()}


def same(one, other):
    return all(torch.equal(each, other[name]) for name, each in one.items())


@pytest.mark.parametrize("name", FAMILIES)
def test_it_comes_closer_in_every_family(name):
    whole = prepared(model_of(name))
    small, given = cut(whole), given_of(name)
    measure = Measure.of(whole, given)
    found = recovered(whole, small, given, steps=40)
    assert measure.losses(found).mean() < 0.9 * measure.losses(small).mean()


def test_it_comes_closer_on_samples_that_it_never_saw():
    whole = planted()[0]
    small = cut(whole, heads=3)
    measure = Measure.of(whole, batches(4, seed=50))
    before, after = (
        measure.losses(model).mean() for model in (small, recovered(whole, small, batches(8), steps=60))
    )
    assert after < 0.7 * before


@pytest.mark.parametrize("rate", [5e-3, 10.0])
def test_it_never_ends_worse_on_what_was_held_out(rate, monkeypatch):
    monkeypatch.setattr(recovery, "RATE", rate)  # the second throws the model far off
    whole = planted()[0]
    small, given = cut(whole), batches(3)
    held_out = Measure.of(whole, recovery._parts(given, seed=4)[1])
    found = recovered(whole, small, given, steps=12, seed=4)
    before, after = (held_out.losses(model).mean() for model in (small, found))
    assert after <= before
    assert same(state_of(small), state_of(found)) == (rate == 10.0)


def test_the_models_that_are_given_stay_as_they_are():
    whole = prepared(model_of("bert"))
    small = cut(whole)
    for each in small.parameters():  # as for inference
        each.requires_grad_(False)
    before = state_of(whole), state_of(small)
    found = recovered(whole, small, given_of("bert"), steps=5)
    assert same(before[0], state_of(whole)) and same(before[1], state_of(small))
    assert not any(each.requires_grad or each.grad is not None for each in found.parameters())


def test_all_parameters_train():
    whole = prepared(model_of("bert"))
    small = cut(whole)
    found = state_of(recovered(whole, small, given_of("bert"), steps=10))
    before = state_of(small)
    unchanged = [name for name in found if torch.equal(found[name], before[name])]
    # A bias of keys adds the same to all scores; yet decay and rounding may move it.
    assert all(name.endswith("key.bias") for name in unchanged)


def test_the_seed_decides_what_is_drawn():
    whole = planted()[0]
    small, given = cut(whole), batches(3)
    one, two, other = (state_of(recovered(whole, small, given, steps=6, seed=seed)) for seed in (1, 1, 2))
    assert same(one, two) and not same(one, other)


@pytest.mark.parametrize("name", ["bert", "vit"])
def test_half_precision_models_come_back_in_half_precision(name):
    whole = prepared(model_of(name)).to(torch.bfloat16)
    given = [
        {key: part.to(torch.bfloat16) if part.is_floating_point() else part for key, part in batch.items()}
        for batch in given_of(name)
    ]
    small = cut(whole)
    measure = Measure.of(whole, given)
    found = recovered(whole, small, given, steps=30)
    assert {each.dtype for each in found.parameters()} == {torch.bfloat16}
    assert measure.losses(found).mean() < 0.9 * measure.losses(small).mean()


def test_seconds_are_kept_to_and_progress_is_told_in_order():
    whole = planted()[0]
    told = []
    recovered(
        whole, cut(whole), batches(3), seconds=0.5, progress=lambda used, best: told.append((used, best))
    )
    used, best = zip(*told, strict=True)
    assert list(used) == sorted(used) and used[-1] == 1.0 and len(told) <= 50
    assert list(best) == sorted(best, reverse=True)


def test_streams_are_apart_where_the_models_are():
    whole = prepared(model_of("bert"))
    (batch,) = given_of("bert")[:1]
    gaps = []
    for other in (copy.deepcopy(whole), cut(whole)):
        streams = Streams(whole, other, batch)
        with streams.tapped(), torch.no_grad():
            for model in (whole, other):
                model(**batch)
            gaps.append(float(streams.gap(batch)))
        assert not any(module._forward_hooks for module in whole.modules())
    assert gaps[0] == 0 and gaps[1] > 1e-3


def test_the_gap_is_that_of_real_tokens_layer_by_layer():
    whole = prepared(model_of("bert"))
    small, batch = sharing_copy(whole), batch_of("bert")
    blocks = attention_blocks(whole), attention_blocks(small)
    for block in blocks[1]:
        block.keep([1, 3])
    streams = Streams(whole, small, batch)
    with streams.tapped(), torch.no_grad():
        for model in (whole, small):
            model(**batch)
        found = float(streams.gap(batch))
    real, gaps = batch["attention_mask"].bool(), []
    sources = [
        [model.get_submodule(f"bert.encoder.layer.{layer}") for layer in range(3)] for model in (whole, small)
    ]
    written = [
        written_in(model, own, batch, source)
        for model, own, source in zip((whole, small), blocks, sources, strict=True)
    ]
    for one, other in zip(*written, strict=True):
        one, other = one[real], other[real]
        gaps.append(float(((one - other) ** 2).sum() / ((one - one.mean(0)) ** 2).sum()))
    assert found == pytest.approx(sum(gaps) / 3, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seconds": 0}, "seconds: expected a finite number > 0, got 0"),
        ({"seconds": -1.0}, "seconds: expected a finite number > 0"),
        ({"seconds": float("nan")}, "seconds: expected a finite number > 0"),
        ({"steps": 0}, "steps: expected an integer >= 1, got 0"),
        ({}, "seconds: expected either seconds or steps"),
        ({"seconds": 1, "steps": 1}, "seconds: expected either seconds or steps"),
        ({"steps": 1, "distance": "far"}, "distance: expected one of KL divergence"),
    ],
)
def test_what_cannot_be_used_is_one_line(options, said):
    whole = planted()[0]
    with pytest.raises(InvalidInput) as refusal:
        recovered(whole, cut(whole), batches(1), **options)
    assert str(refusal.value).startswith(said) and "\n" not in str(refusal.value)


def test_one_sample_is_too_few():
    whole = planted()[0]
    with pytest.raises(InvalidInput, match="batches: expected at least 2 samples, got 1"):
        recovered(whole, cut(whole), batches(1, samples=1), steps=1)
