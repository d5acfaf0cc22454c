"""Second moments of what enters the projections of attention layers: the metrics that grouping needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.attention import KEY, QUERY, VALUE, AttentionBlock
from headcount.trained.batches import Batch, called, real_tokens, size_of

Moment = Float[np.ndarray, "number number"]
Found = dict[tuple[int, int], Tensor]  # by layer and projection


@dataclass(frozen=True, eq=False)
class InputMoments:
    """The mean of [x, 1]ᵀ[x, 1] over tokens, samples weighing alike, for each projection of a layer.

    - `centred`: of the keys' inputs about the mean of their sample. A softmax drops what all keys of a sample
      have in common, so this is all that it sees of keys without rotary embeddings.
    """

    queries: Moment
    keys: Moment
    values: Moment
    centred: Moment


def input_moments(
    model: nn.Module, blocks: Sequence[AttentionBlock], batches: Sequence[Batch]
) -> list[InputMoments]:
    """Of every layer; one pass."""
    sums: list[Any] = [0.0] * len(blocks)
    for batch in batches:
        found = _inputs(model, blocks, batch)
        for layer, block in enumerate(blocks):
            sums[layer] = sums[layer] + _sums(block, batch, [found[layer, which] for which in range(3)])
    total = sum(map(size_of, batches))
    return [InputMoments(*(each / total for each in layer)) for layer in sums]


def _inputs(model: nn.Module, blocks: Sequence[AttentionBlock], batch: Batch) -> Found:
    found: Found = {}

    def note(layer: int, which: Sequence[int], _: nn.Module, inputs: tuple[Any, ...]) -> None:
        entered = inputs[0].detach()  # one tensor for all three, where one map makes them
        found.update({(layer, each): entered for each in which})

    hooks = [
        projection.register_forward_pre_hook(partial(note, layer, which))
        for layer, block in enumerate(blocks)
        for which, projection in zip(_made_by(block), block.projections, strict=True)
    ]
    try:
        with torch.no_grad():
            called(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    missed = [block.name for layer, block in enumerate(blocks) if (layer, VALUE) not in found]
    if missed:
        raise InvalidInput(f"{missed[0]}: expected to be called for every batch, was not")
    return found


def _made_by(block: AttentionBlock) -> list[tuple[int, ...]]:
    """What each of its maps makes."""
    every = (QUERY, KEY, VALUE)
    return [every] if len(block.projections) == 1 else [(which,) for which in every]


def _sums(block: AttentionBlock, batch: Batch, inputs: Sequence[Tensor]) -> np.ndarray:
    """The moments of a batch, summed over its samples; inputs that are one tensor are read once."""
    query, key, value = inputs
    decoder = "decoder" in block.name.split(".")
    of_queries, centred = _of_tokens(batch, query, decoder=decoder)
    of_keys = of_queries
    if key is not query:
        of_keys, centred = _of_tokens(batch, key, decoder=decoder and len(key[0]) == len(query[0]))
    of_values = of_keys if value is key else _of_tokens(batch, value, decoder=False)[0]
    shapes = {len(each) for each in (of_queries, of_keys, of_values)}
    found = np.empty(4, object) if len(shapes) > 1 else np.empty((4, *of_queries.shape))
    for place, each in enumerate((of_queries, of_keys, of_values, centred)):
        found[place] = each
    return found


def _of_tokens(batch: Batch, x: Tensor, *, decoder: bool) -> tuple[Moment, Moment]:
    """Over real tokens: the second moment of [x, 1], and the same about the means of rows of tokens.

    A row is what one softmax runs over: a sample, or a window of an image.
    """
    samples, x = size_of(batch), x.double()
    rows = x.reshape(len(x), -1, x.shape[-1])
    real = real_tokens(batch, samples, rows.shape[0] * rows.shape[1] // samples, decoder=decoder)
    weight = real / np.maximum(real.sum(axis=1, keepdims=True), 1)
    weights = torch.from_numpy(weight.reshape(rows.shape[:2])).to(rows)[..., None]
    with_one = torch.cat([rows, torch.ones_like(rows[..., :1])], dim=-1)
    heavy = with_one * weights
    moment = heavy.flatten(0, 1).T @ with_one.flatten(0, 1)
    summed, mass = heavy.sum(1), weights.sum(1)
    means = torch.where(mass > 0, summed / mass.clamp(min=1e-12), 0.0)
    centred = moment - summed.T @ means
    return np.asarray(moment.cpu()), np.asarray(centred.cpu())
