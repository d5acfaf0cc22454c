"""Moments from hooks, and batches in lockstep, against plain passes over everything at once."""

from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
import transformers
from small_models import MODELS, TEXT, batch_of, model_of, outputs_of

from headcount.errors import InvalidInput
from headcount.trained import taps
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.fitting import moments_of, resampled, shrunk
from headcount.trained.lockstep import in_lockstep
from headcount.trained.refit import Moments, Projection, refitted
from headcount.trained.residual import residual_sources
from headcount.trained.taps import targets_of

pytestmark = pytest.mark.torch

TOKENS_FIRST = "torch, tokens first"
FAMILIES = pytest.mark.parametrize("name", [name for name in MODELS if name != TOKENS_FIRST])


def read(name):
    model = prepared(model_of(name))
    batches = [batch_of(name, seed=seed, tokens=6 + seed) for seed in (1, 2)]
    blocks = attention_blocks(model)
    return model, blocks, batches, targets_of(model, blocks, batches)


def passed(model, blocks, batches, at):
    stops, names = [block.output for block in blocks], [block.name for block in blocks]
    in_lockstep(model, batches, stops, at, names=names)


def passed_with_residuals(model, blocks, targets, at):
    stops, names = [block.output for block in blocks], [block.name for block in blocks]
    beside = targets.sources_in(model)
    in_lockstep(model, targets.batches, stops, at, names=names, beside=beside)


@FAMILIES
def test_the_model_s_own_projections_fit_its_moments(name):
    model, blocks, _, targets = read(name)
    layers = []

    def at(layer, outputs, residuals):
        layers.append(layer)
        block = blocks[layer]
        for fold in targets.moments(layer, outputs, residuals):
            weight, bias = block.output_weight(), block.output_bias()
            bias = np.zeros(block.width) if bias is None else bias
            rows, squares = torch.from_numpy(np.vstack([weight, bias])), fold.squares
            torch.testing.assert_close((rows * (fold.gram @ rows)).sum(), squares, rtol=1e-6, atol=0)
            torch.testing.assert_close((rows * fold.cross).sum(), squares, rtol=1e-6, atol=0)

    passed_with_residuals(model, blocks, targets, at)
    assert sorted(layers) == list(range(len(blocks)))


def test_moments_are_those_of_all_real_tokens_of_samples_that_weigh_alike():
    model, blocks, batches, targets = read("bert")
    outputs, written = [], []
    hook = blocks[1].output.register_forward_hook(
        lambda _, inputs, output: [outputs.append(inputs[0]), written.append(output)].clear()
    )
    for batch in batches:
        outputs_of(model, batch)
    hook.remove()
    plain = []
    for batch, *both in zip(batches, outputs, written, strict=True):
        for sample, mask in enumerate(batch["attention_mask"].bool()):
            heads, wanted = (each[sample][mask].numpy() for each in both)
            plain.append(Moments.of(heads, wanted).times(1 / int(mask.sum())))
    plain, found = reduce(add, plain), []
    passed_with_residuals(model, blocks, targets, lambda layer, *z: found.append(targets.moments(layer, *z)))
    total = reduce(add, found[1])
    np.testing.assert_allclose(total.gram, plain.gram, rtol=0, atol=1e-10)
    np.testing.assert_allclose(total.cross, plain.cross, rtol=0, atol=1e-10)
    assert total.weight == pytest.approx(6)


@FAMILIES
def test_the_residual_stream_is_found_where_layers_add_to_one(name):
    model, blocks, batches, targets = read(name)
    for source, block in zip(targets.sources, blocks, strict=True):
        assert source is not None and block.name.startswith(source)
    assert len(residual_sources(model, blocks, batches[0])) == len(blocks)


def test_no_residual_stream_where_what_is_written_is_scaled_first():
    model = prepared(model_of("timm"))
    for block in model.blocks:
        block.ls1 = torch.nn.Linear(16, 16).double()
    assert residual_sources(model, attention_blocks(model), batch_of("timm")) == [None] * 3


def test_a_refit_takes_the_residual_stream_back_to_where_it_was():
    model, _, _, targets = read("vit")
    changed = prepared(model)
    with torch.no_grad():
        changed.vit.embeddings.position_embeddings.mul_(0.5)
    theirs, errors = attention_blocks(changed), {}

    def at(layer, outputs, residuals):
        moments = reduce(add, targets.moments(layer, outputs, residuals))
        errors[layer] = refitted(moments, range(4), head_dim=4).error(moments), stays(theirs[layer], moments)

    passed_with_residuals(changed, theirs, targets, at)
    assert all(fitted < 0.9 * left for fitted, left in errors.values())


def stays(block, moments):
    """The error of the projection as it is."""
    weight, bias = map(torch.from_numpy, (block.output_weight(), block.output_bias()))
    return Projection(np.arange(len(weight)), weight, bias).error(moments)


def test_at_most_so_many_tokens_of_each_sample_are_drawn(monkeypatch):
    monkeypatch.setattr(taps, "MAX_TOKENS", 12)
    *_, targets = read("vit")
    assert [len(drawn.rows) for drawn in targets.drawn[0]] == [6, 6]
    assert all(len(set(drawn.rows.tolist())) == 6 for drawn in targets.drawn[0])


def test_without_a_bias_none_is_fitted():
    model, blocks, _, targets = read("llama")
    biases = []

    def at(layer, outputs, residuals):
        folds = targets.moments(layer, outputs, residuals)
        found = refitted(sum(folds[1:], folds[0]), [0, 2], head_dim=blocks[layer].head_dim)
        biases.append(float(found.bias.abs().max()))

    passed_with_residuals(model, blocks, targets, at)
    assert biases == [0.0] * len(blocks)


@FAMILIES
def test_a_layer_changed_in_lockstep_is_what_later_layers_get(name):
    model, _, batches, _ = read(name)
    changed, plain = prepared(model), prepared(model)
    theirs, seen = attention_blocks(changed), []

    def at(layer, outputs, residuals):
        seen.append([each.clone() for each in outputs])
        weight = theirs[layer].output_weight() * 0.5
        theirs[layer].set_output(weight, theirs[layer].output_bias())

    passed(changed, theirs, batches, at)
    for block in attention_blocks(plain):
        block.set_output(block.output_weight() * 0.5, block.output_bias())
    for batch in batches:
        torch.testing.assert_close(outputs_of(changed, batch), outputs_of(plain, batch), rtol=0, atol=1e-12)
    last = []
    hook = attention_blocks(plain)[-1].output.register_forward_pre_hook(
        lambda _, inputs: last.append(inputs[0])
    )
    for batch in batches:
        outputs_of(plain, batch)
    hook.remove()
    for one, other in zip(seen[-1], last, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_heads_can_go_while_batches_wait():
    model, blocks, batches, _ = read("gpt2")
    changed = prepared(model)
    theirs = attention_blocks(changed)

    def at(layer, outputs, residuals):
        theirs[layer].keep([0, 3])
        size = theirs[layer].head_dim
        columns = torch.cat([torch.arange(size), torch.arange(size) + 3 * size])
        return [each[..., columns] for each in outputs]

    passed(changed, theirs, batches, at)
    for block in blocks:
        block.keep([0, 3])
    for batch in batches:
        assert torch.equal(outputs_of(changed, batch), outputs_of(model, batch))


def test_an_error_in_a_batch_or_a_change_ends_all_threads():
    import threading

    model, blocks, batches, _ = read("bert")
    before = threading.active_count()

    def fails(*_):
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        passed(model, blocks, batches, fails)
    with pytest.raises(InvalidInput, match="model: IndexError"):
        passed(model, blocks, [*batches, {"input_ids": torch.full((1, 3), 999)}], lambda *_: None)
    assert threading.active_count() == before
    assert not any(block.output._forward_pre_hooks for block in blocks)


def test_attention_that_every_layer_calls_is_refused():
    config = transformers.AlbertConfig(**TEXT, embedding_size=8)
    model = prepared(transformers.AlbertModel(config))
    with pytest.raises(InvalidInput, match="attention that several layers share"):
        targets_of(model, attention_blocks(model), [batch_of("bert")])


def test_samples_on_another_axis_than_the_first_are_refused():
    model = prepared(model_of("torch, tokens first"))
    with pytest.raises(InvalidInput, match="samples of a batch along the first axis"):
        targets_of(model, attention_blocks(model), [batch_of("torch", samples=4, tokens=6)])


def test_a_model_that_makes_no_numbers_is_refused():
    model = prepared(model_of("vit"))
    torch.nn.init.constant_(attention_blocks(model)[1].output.bias, torch.nan)
    with pytest.raises(InvalidInput, match="expected finite numbers inside, got NaN"):
        targets_of(model, attention_blocks(model), [batch_of("vit")])


@pytest.mark.parametrize("name", ["bert", "t5", "torch"])
def test_a_pass_of_some_folds_gives_their_moments(name):
    model, batches = prepared(model_of(name)), [batch_of(name, samples=8, seed=seed) for seed in range(2)]
    blocks = attention_blocks(model)
    targets = targets_of(model, blocks, batches)
    every, some, folds = moments_of(model, targets), targets.of_folds([1, 4]), targets.folds
    assert some.folds == [1, 4] and folds == list(range(10))
    for layer, found in enumerate(moments_of(model, some)):
        for fold, moments in zip(some.folds, found, strict=True):
            wanted = every[layer][folds.index(fold)]
            np.testing.assert_allclose(moments.gram, wanted.gram, atol=1e-12)
            np.testing.assert_allclose(moments.cross, wanted.cross, atol=1e-12)


def test_a_model_fitted_to_some_folds_twice_is_the_one_of_their_moments_doubled():
    model, batches = prepared(model_of("bert")), [batch_of("bert", samples=30)]
    blocks = attention_blocks(model)
    targets = targets_of(model, blocks, batches)
    draw = [3, 3, 0, 7]
    found = shrunk(model, targets, (2, 4, 4), lambda *_: [0, 1], [1e-3] * 3, folds=draw)
    moments = resampled(moments_of(model, targets)[0], draw)
    towards = torch.from_numpy(blocks[0].output_weight())
    wanted = refitted(reduce(add, moments), [0, 1], head_dim=4, ridge=1e-3, towards=towards)
    np.testing.assert_allclose(found.blocks[0].output_weight(), wanted.weight, atol=1e-10)
