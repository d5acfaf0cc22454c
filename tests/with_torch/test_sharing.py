"""Key-value heads of whole models, grouped: exactly where heads are copies, elsewhere as well as can be."""

import numpy as np
import pytest
import torch
from small_models import HEADS, MODELS, batch_of, model_of, outputs_of

from headcount.trained.affine import with_bias_row, without_bias_row
from headcount.trained.attention import KEY, QUERY, VALUE
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.regrouping import grouped

pytestmark = pytest.mark.torch

EXACT = 1e-6
ROTARY, NORMED = ("llama", "mistral", "qwen2"), ("qwen3",)
FUSED = ("gpt2", "timm")
# Batches here have their samples first.
SHARING = sorted(set(MODELS) - {*NORMED, *FUSED, "torch, tokens first"})
ORDER = (2, 0, 3, 1)  # puts copies apart


def batches_of(name, count=3, *, samples=12):
    return [batch_of(name, samples=samples, seed=seed) for seed in range(count)]


def copied(name, kinds=(0, 0, 1, 1), *, seed=0):
    """A model whose heads have so many different keys and values, hidden by changes that do nothing."""
    model, random = prepared(model_of(name)), np.random.default_rng(seed)
    rotary = name in ROTARY
    for block in attention_blocks(model):
        queries, keys, values = (
            with_bias_row(block.weights(which), block.biases(which)) for which in (QUERY, KEY, VALUE)
        )
        written = block.output_weight().reshape(HEADS, block.head_dim, -1)
        biased = [block.biases(which) is not None for which in (QUERY, KEY, VALUE)]
        of_keys, of_values, keys, values = [], [], keys[list(kinds)], values[list(kinds)]
        for head in range(HEADS):
            size = block.head_dim
            mix, turn = (random.normal(size=(size, size)) + 2 * np.eye(size) for _ in range(2))
            if rotary:  # a complex gain for each frequency
                real, imaginary = (np.diag(random.normal(size=size // 2)) for _ in range(2))
                turn = np.block([[real, imaginary], [-imaginary, real]])
            of_keys.append(keys[head] @ turn)
            queries[head] = queries[head] @ np.linalg.inv(turn).T
            of_values.append(values[head] @ mix)
            written[head] = np.linalg.solve(mix, written[head])
        keys, values = np.stack(of_keys)[list(ORDER)], np.stack(of_values)[list(ORDER)]
        (keys, key_bias), (values, value_bias), (queries, query_bias) = (
            without_bias_row(each, biased=has)
            for each, has in zip(
                (keys, values, queries), (biased[KEY], biased[VALUE], biased[QUERY]), strict=True
            )
        )
        block.set_part(QUERY, queries, query_bias)
        block.set_output(written.reshape(-1, block.width), block.output_bias())
        block.share(keys, values, key_bias, value_bias, order=ORDER)
    return model


@pytest.mark.parametrize("refit", [True, False])
@pytest.mark.parametrize("name", SHARING)
def test_heads_that_are_copies_in_disguise_are_grouped_back(name, refit):
    model, given = copied(name), batches_of(name)
    assert {block.kv_heads for block in attention_blocks(model)} == {HEADS}
    found, fresh = grouped(model, given, 2, refit=refit), batch_of(name, seed=99)
    assert {block.kv_heads for block in found.blocks} == {2}
    torch.testing.assert_close(outputs_of(found.model, fresh), outputs_of(model, fresh), rtol=0, atol=EXACT)
