"""Keys with rotary embeddings as a softmax sees them: how those of different heads overlap, by frequency.

A frequency of a key is a complex number that its place has turned. Of these, a softmax drops what all keys
of a row have in common. That is much where a frequency hardly turns, little where it turns fast: so the mean
is taken after turning. Where tokens see those before them alone, each has a mean of its own.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headcount.trained.attention import KEY, AttentionBlock
from headcount.trained.batches import Batch, called, real_tokens, size_of
from headcount.trained.rotary import Grams
from headcount.trained.scores import Scores

ANGLES = "position_embeddings"  # what transformers hands to attention: cosines and sines


def rotary_grams(
    model: nn.Module, blocks: Sequence[AttentionBlock], batches: Sequence[Batch], scores: Sequence[Scores]
) -> list[Grams | None]:
    """The mean over queries of Σ_s k_i(s) k_j(s)* about the mean, for key-value heads i and j; one pass.

    None for layers without rotary embeddings.
    """
    sums: dict[int, Tensor] = {}
    rotary = [layer for layer, each in enumerate(scores) if each != "plain"]
    for batch in batches if rotary else ():
        for layer, (keys, angles) in _keys(model, blocks, rotary, batch).items():
            turned = _turned(keys, angles, blocks[layer], interleaved=scores[layer] == "rotary, interleaved")
            real = real_tokens(batch, size_of(batch), turned.shape[1])
            causal = bool(getattr(blocks[layer].attention, "is_causal", False))
            found = _overlaps_seen(
                turned, torch.from_numpy(real).to(keys.device), causal=causal, centred=angles is not None
            )
            sums[layer] = sums[layer] + found if layer in sums else found
    total = sum(map(size_of, batches))
    return [
        np.asarray((sums[layer] / total).cpu()) if layer in sums else None for layer in range(len(blocks))
    ]


def _keys(
    model: nn.Module, blocks: Sequence[AttentionBlock], layers: Sequence[int], batch: Batch
) -> dict[int, tuple[Tensor, tuple[Tensor, Tensor] | None]]:
    """Of these layers, the keys before they are turned, and cosines and sines where they are handed over."""
    keys: dict[int, Tensor] = {}
    angles: dict[int, tuple[Tensor, Tensor]] = {}

    def note_keys(layer: int, _: nn.Module, __: Any, made: Tensor) -> None:
        keys[layer] = made.detach()

    def note_angles(layer: int, _: nn.Module, __: Any, named: dict[str, Any]) -> None:
        if named.get(ANGLES) is not None:
            angles[layer] = named[ANGLES]

    hooks = [blocks[at].projections[KEY].register_forward_hook(partial(note_keys, at)) for at in layers]
    hooks += [
        blocks[at].attention.register_forward_pre_hook(partial(note_angles, at), with_kwargs=True)
        for at in layers
    ]
    try:
        with torch.no_grad():
            called(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    return {layer: (made, angles.get(layer)) for layer, made in keys.items()}


def _turned(
    keys: Tensor, angles: tuple[Tensor, Tensor] | None, block: AttentionBlock, *, interleaved: bool
) -> Tensor:
    """Complex keys, [sample, token, head, frequency], as they stand where angles are not known."""
    pairs = keys.double().unflatten(-1, (block.kv_heads, block.head_dim))
    found = _complex(pairs, interleaved=interleaved)
    if angles is None:
        return found
    half = block.head_dim // 2
    cosines, sines = (
        each.double()[..., :: 2 if interleaved else 1][..., :half][:, :, None] for each in angles
    )
    return found * torch.complex(cosines, sines)


def _complex(pairs: Tensor, *, interleaved: bool) -> Tensor:
    if interleaved:
        return torch.complex(pairs[..., ::2].contiguous(), pairs[..., 1::2].contiguous())
    first, second = pairs.chunk(2, dim=-1)
    return torch.complex(first.contiguous(), second.contiguous())


def _overlaps_seen(keys: Tensor, real: Tensor, *, causal: bool, centred: bool) -> Tensor:
    """The sum over samples of what a query sees in the mean, [frequency, head, head].

    - `centred`: about the mean. Otherwise frequencies are taken to turn fast, so that their mean is 0.
    """
    masked = keys * real[..., None, None]
    seen = real.double()
    queries = seen / seen.sum(1, keepdim=True).clamp(min=1)
    if causal:
        counts = seen.cumsum(1).clamp(min=1)
        means, of_queries = masked.cumsum(1) / counts[..., None, None], queries
        weights = (queries / counts).flip(1).cumsum(1).flip(1)
    else:
        means = (masked * queries[..., None, None]).sum(1, keepdim=True)
        of_queries, weights = torch.ones_like(queries[:, :1]), queries
    found = _overlaps(masked, weights)
    return found - _overlaps(means, of_queries) if centred else found


def _overlaps(keys: Tensor, weights: Tensor) -> Tensor:
    """Σ w k_i k_j* by frequency."""
    rows = keys.permute(3, 2, 0, 1).flatten(2)
    return (rows * weights.flatten()) @ rows.mH
