"""The output projections of heads that are given, refitted to samples or left as they are."""

from collections.abc import Sequence

from torch import nn

from headcount.trained.batches import Batch
from headcount.trained.discovery import attention_blocks
from headcount.trained.fitting import moments_of, projections_of, ridge_of, shrunk
from headcount.trained.plan import Kept
from headcount.trained.projections import Projections
from headcount.trained.refit import columns_of
from headcount.trained.taps import targets_of


def refitted_projections(
    whole: nn.Module, batches: Sequence[Batch], kept: Kept, *, seed: int = 0
) -> Projections:
    """Those with which the kept heads come closest to what the whole model writes, layer by layer."""
    blocks = attention_blocks(whole)
    targets = targets_of(whole, blocks, batches, seed=seed)
    moments = moments_of(whole, targets)
    ridges = [ridge_of(*each) for each in zip(blocks, moments, kept, strict=True)]
    counts = [len(heads) for heads in kept]
    found = shrunk(whole, targets, counts, lambda layer, _, __: kept[layer], ridges)
    return projections_of(found)


def own_projections(whole: nn.Module, kept: Kept) -> Projections:
    """The rows of the model's own projections that belong to the kept heads."""
    return [
        (block.output_weight()[columns_of(heads, block.head_dim)], block.output_bias())
        for block, heads in zip(attention_blocks(whole), kept, strict=True)
    ]
