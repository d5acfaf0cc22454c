"""Models whose number of heads is known: a few heads, spread over twice as many without any change."""

import numpy as np
import torch
from small_models import batch_of, model_of
from torch import nn

from headcount.trained.attention import KEY, QUERY, VALUE
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.families.multihead import SeparateAttention


def _linear(weight, bias):
    made = nn.Linear(weight.shape[1], weight.shape[0]).double()
    with torch.no_grad():
        made.weight.copy_(torch.from_numpy(weight))
        made.bias.copy_(torch.from_numpy(bias))
    return made


def spread_over_twice(block, random, *, noise=0.0):
    """An equal module with each head split in two, in a random order.

    Both halves attend alike (Q R and K R⁻ᵀ give the same scores) and mix the values differently, and what
    they write adds up to what the head wrote: V A (A⁻¹ (O/2 + M)) + V B (B⁻¹ (O/2 − M)) = V O.
    """
    heads, size = block.heads, block.head_dim
    order = random.permutation(2 * heads)
    weights, biases = zip(*((block.weights(w), block.biases(w)) for w in (QUERY, KEY, VALUE)), strict=True)
    written = block.output_weight().reshape(heads, size, -1)
    parts = []
    for head in range(heads):
        other = random.normal(size=written[head].shape)
        for sign in (1, -1):
            turn, mix = (random.normal(size=(size, size)) + 2 * np.eye(size) for _ in range(2))
            maps = turn, np.linalg.inv(turn).T, mix
            rows = [each.T @ weight[head] for each, weight in zip(maps, weights, strict=True)]
            ones = [each.T @ bias[head] for each, bias in zip(maps, biases, strict=True)]
            parts.append((rows, ones, np.linalg.solve(mix, written[head] / 2 + sign * other)))
    parts = [parts[place] for place in order]
    made = [
        _linear(
            np.concatenate([part[0][which] for part in parts]), np.concatenate([p[1][which] for p in parts])
        )
        for which in (QUERY, KEY, VALUE)
    ]
    output = _linear(np.concatenate([part[2] for part in parts]).T, block.output_bias())
    with torch.no_grad():
        for each in (*made, output):
            scale = each.weight.std()
            each.weight.add_(torch.from_numpy(random.normal(size=each.weight.shape)) * scale * noise)
    found = SeparateAttention(*made, output, 2 * heads).double()
    found.batch_first = True
    return found.eval()


def planted(*, seed=0, noise=0.0):
    """A random encoder of 3 layers with 4 heads, and the equal one with 8 in each layer."""
    model = prepared(model_of("torch", seed=seed))
    spread, random = prepared(model), np.random.default_rng(seed)
    for layer, block in zip(spread.encoder.layers, attention_blocks(spread), strict=True):
        layer.self_attn = spread_over_twice(block, random, noise=noise)
    return model, spread


def batches(count=8, *, samples=16, seed=5):
    """Numbers for it."""
    return [batch_of("torch", samples=samples, tokens=8, seed=seed + number)[0] for number in range(count)]
