"""Which attention layers look back alone, and so can keep their keys and values from token to token."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called, part_of, real_tokens, size_of

SAMPLES = 2
CHANGE = 1e-4  # of the largest entry


def causal_layers(model: nn.Module, blocks: Sequence[AttentionBlock], batch: Batch) -> tuple[bool, ...]:
    """Of every block, whether what its heads put out is the same whatever the values of later tokens.

    Found by what happens when the values of the later half of two samples are changed, one layer at a time:
    configs and attributes say it in many ways, or not at all. A sample of one token does not tell, and
    counts as not causal.
    """
    batch = part_of(batch, range(min(SAMPLES, size_of(batch))))
    before = _head_outputs(model, blocks, batch)
    return tuple(
        _is_causal(model, block, batch, outputs) for block, outputs in zip(blocks, before, strict=True)
    )


def _is_causal(model: nn.Module, block: AttentionBlock, batch: Batch, before: Tensor | None) -> bool:
    samples = size_of(batch)
    tokens = 0 if before is None else before.numel() // (before.shape[-1] * samples)
    if before is None or tokens < 2:
        return False
    real = real_tokens(batch, samples, tokens, decoder="decoder" in block.name.split("."))
    later = real.cumsum(axis=1) > np.ceil(real.sum(axis=1, keepdims=True) / 2)
    earlier = torch.from_numpy(real & ~later).to(before.device)
    rows = torch.from_numpy(later).to(before.device)
    hook = block.projections[-1].register_forward_hook(partial(_disturb, rows))
    try:
        (after,) = _head_outputs(model, [block], batch)
    finally:
        hook.remove()
    if after is None or not later.any():
        return False
    one, other = (each.reshape(samples, tokens, -1)[earlier] for each in (before, after))
    return float((other - one).abs().max()) <= CHANGE * float(one.abs().max())


def _disturb(rows: Tensor, _: nn.Module, __: object, made: Tensor) -> Tensor:
    """Other values at some tokens; everywhere, where keys are not the tokens that are asked for."""
    larger = made + made.abs().max() + 1
    if made.numel() != rows.numel() * made.shape[-1]:
        return larger
    return torch.where(rows.reshape(*made.shape[:-1], 1), larger, made)


def _head_outputs(model: nn.Module, blocks: Sequence[AttentionBlock], batch: Batch) -> list[Tensor | None]:
    found: dict[nn.Module, Tensor] = {}

    def note(output: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        found[output] = arguments[0].detach().clone()

    hooks = [block.output.register_forward_pre_hook(note) for block in blocks]
    try:
        with torch.no_grad():
            called(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    return [found.get(block.output) for block in blocks]
