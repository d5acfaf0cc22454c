"""Attention modules of every family: found, read, and changed in place."""

import numpy as np
import pytest
import torch
from small_models import HEADS, MODELS, WIDTH, Encoder, batch_of, model_of, outputs_of
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.attention import KEY, QUERY, VALUE
from headcount.trained.discovery import attention_blocks, prepared

pytestmark = pytest.mark.torch

EXACT = 1e-10
FAMILIES = pytest.mark.parametrize("name", MODELS)
# Of the heads of one layer after another; sharing them unevenly between two key-value heads, too.
KEPT = ((0, 1, 3), (2,), (0, 1, 2, 3), (1, 2), (1,), (0, 2))


def zeroed(model, blocks, kept):
    """The slow reference: the columns of the other heads are zero, nothing is resized."""
    for block, heads in zip(blocks, kept, strict=True):
        weight = block.output_weight().reshape(block.heads, block.head_dim, -1)
        weight[np.setdiff1d(np.arange(block.heads), heads)] = 0
        block.set_output(weight.reshape(-1, block.width), block.output_bias())
    return model


def kept_of(blocks):
    return [KEPT[place % len(KEPT)] for place in range(len(blocks))]


@FAMILIES
def test_a_prepared_model_computes_the_same(name):
    model, batch = model_of(name), batch_of(name)
    torch.testing.assert_close(
        outputs_of(prepared(model), batch), outputs_of(model, batch), rtol=0, atol=EXACT
    )


@FAMILIES
def test_keeping_all_heads_changes_nothing(name):
    model, batch = prepared(model_of(name)), batch_of(name)
    before = outputs_of(model, batch)
    for block in attention_blocks(model):
        block.keep(range(block.heads))
    assert torch.equal(outputs_of(model, batch), before)


@FAMILIES
def test_keeping_some_heads_is_zeroing_the_others(name):
    whole, batch = prepared(model_of(name)), batch_of(name)
    small, reference = prepared(whole), prepared(whole)
    blocks = attention_blocks(small)
    for block, kept in zip(blocks, kept_of(blocks), strict=True):
        block.keep(kept)
        assert block.heads == len(kept)
    reference = zeroed(reference, attention_blocks(reference), kept_of(blocks))
    torch.testing.assert_close(outputs_of(small, batch), outputs_of(reference, batch), rtol=0, atol=EXACT)
    assert not torch.allclose(outputs_of(small, batch), outputs_of(whole, batch), atol=1e-3)


@FAMILIES
def test_a_model_with_fewer_heads_has_fewer_parameters_and_can_lose_more(name):
    model, batch = prepared(model_of(name)), batch_of(name)
    before = sum(each.numel() for each in model.parameters())
    blocks = attention_blocks(model)
    for kept in ((0, 2, 3), (1,)):
        for block in blocks:
            block.keep(kept)
        assert torch.isfinite(outputs_of(model, batch)).all()
    assert sum(each.numel() for each in model.parameters()) < before


@FAMILIES
def test_every_layer_is_found(name):
    blocks = attention_blocks(prepared(model_of(name)))
    expected = {"t5": 9, "bart": 6, "torch decoder": 6}.get(name, 3)
    assert len(blocks) == expected and {block.heads for block in blocks} == {HEADS}


@FAMILIES
def test_heads_are_read_in_the_order_in_which_they_are_kept(name):
    whole = attention_blocks(prepared(model_of(name)))[0]
    small = attention_blocks(prepared(model_of(name)))[0]
    small.keep([1, 3])
    np.testing.assert_array_equal(small.weights(QUERY), whole.weights(QUERY)[[1, 3]])
    groups = [head // whole.group_size for head in (1, 3)]
    for which in (KEY, VALUE):
        np.testing.assert_array_equal(small.weights(which), whole.weights(which)[groups])
        if whole.biases(which) is not None:
            np.testing.assert_array_equal(small.biases(which), whole.biases(which)[groups])


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"gpt2", "timm"}))
def test_equal_key_value_heads_can_be_shared(name):
    batch = batch_of(name)
    whole = prepared(model_of(name))
    for block in attention_blocks(whole):  # each pair of heads has the keys and values of the first
        first = [head - head % 2 if block.group_size == 1 else 0 for head in range(block.kv_heads)]
        keys_and_values = [block.weights(which)[first] for which in (KEY, VALUE)]
        biases = [None if b is None else b[first] for b in (block.biases(KEY), block.biases(VALUE))]
        block.share(*keys_and_values, *biases)
    before = outputs_of(whole, batch)
    for block in attention_blocks(whole):
        few = slice(None, None, 2)
        biases = [None if b is None else b[few] for b in (block.biases(KEY), block.biases(VALUE))]
        block.share(block.weights(KEY)[few], block.weights(VALUE)[few], *biases)
        assert block.kv_heads in (1, 2) and block.heads == HEADS
    torch.testing.assert_close(outputs_of(whole, batch), before, rtol=0, atol=EXACT)


@pytest.mark.parametrize("name", ["gpt2", "timm"])
def test_a_kind_that_cannot_share_says_so(name):
    block = attention_blocks(prepared(model_of(name)))[0]
    with pytest.raises(InvalidInput, match="cannot have fewer key-value heads than heads"):
        block.share(block.weights(KEY)[:2], block.weights(VALUE)[:2], None, None)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_masks_of_torch_mean_the_same_in_the_exchanged_module():
    whole = Encoder().double().eval()
    x = batch_of("torch")[0]
    padding = torch.zeros(x.shape[:2], dtype=torch.bool)
    padding[0, -3:] = True
    with torch.no_grad():
        found, wanted = (model(x, padding)[~padding] for model in (prepared(whole), whole))
    torch.testing.assert_close(found, wanted, rtol=0, atol=EXACT)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask_dim", [2, 3])
@pytest.mark.parametrize("batch_first", [True, False])
def test_the_exchanged_module_is_multihead_attention(batch_first, mask_dim, need_weights):
    torch.manual_seed(0)
    original = nn.MultiheadAttention(WIDTH, HEADS, kdim=6, vdim=7, batch_first=batch_first).double().eval()
    nn.init.normal_(original.in_proj_bias)
    shapes = [(2, 5, WIDTH), (2, 3, 6), (2, 3, 7)]
    query, key, value = (torch.randn(*shape, dtype=torch.float64) for shape in shapes)
    if not batch_first:
        query, key, value = (each.transpose(0, 1) for each in (query, key, value))
    mask = torch.randn(*((2 * HEADS,) if mask_dim == 3 else ()), 5, 3, dtype=torch.float64)
    named = {"attn_mask": mask, "need_weights": need_weights, "average_attn_weights": False}
    (wanted, weights), (found, found_weights) = (
        model(query, key, value, **named) for model in (original, prepared(original))
    )
    torch.testing.assert_close(found, wanted, rtol=0, atol=EXACT)
    if need_weights:
        torch.testing.assert_close(found_weights, weights, rtol=0, atol=EXACT)
