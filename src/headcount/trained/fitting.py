"""Fewer heads in every layer, chosen and refitted from the bottom up on the inputs that layers now get."""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import torch
from torch import Tensor, nn

from headcount.trained.arrays import single_threaded
from headcount.trained.attention import AttentionBlock
from headcount.trained.choosing import Choose
from headcount.trained.descent import Counts
from headcount.trained.discovery import attention_blocks
from headcount.trained.linear import weight_of
from headcount.trained.lockstep import Beside, in_lockstep
from headcount.trained.plan import Kept
from headcount.trained.projections import Projections
from headcount.trained.refit import Moments, chosen_ridge, columns_of, refitted
from headcount.trained.taps import Targets

LEFT_OUT = 5  # parts of the samples, each left out once to choose a ridge


@dataclass(frozen=True, eq=False)
class Shrunk:
    """A model with fewer heads.

    - `kept`: of every layer, the heads of the whole model that are left.
    - `first`: the layer before which it is the whole model.
    """

    model: nn.Module
    blocks: tuple[AttentionBlock, ...]
    kept: Kept
    first: int = 0

    @property
    def counts(self) -> Counts:
        """Heads of every layer."""
        return tuple(map(len, self.kept))


@single_threaded()
def fit(block: AttentionBlock, moments: Sequence[Moments], kept: Sequence[int], *, ridge: float) -> None:
    """Keep these heads, with the output projection that serves them best."""
    towards, size = weight_of(block.output).double().T, block.head_dim
    found = refitted(reduce(add, moments), kept, head_dim=size, ridge=ridge, towards=towards)
    block.keep(kept)
    block.set_output(found.weight, found.bias if block.has_output_bias else None)


def shrunk(
    whole: nn.Module,
    targets: Targets,
    counts: Sequence[int],
    choose: Choose,
    ridges: Sequence[float],
    *,
    folds: Sequence[int] | None = None,
    fit: Callable[..., None] = fit,
) -> Shrunk:
    """The whole model with so many heads in every layer.

    Layers below the first that loses heads stay as they are; those above are refitted even where they keep
    all of theirs, since their inputs change.

    - `ridges`: of the refit, by layer.
    - `folds`: those to fit to, some perhaps more than once.
    - `fit`: takes the heads away and serves those that are kept, as `fit` does.
    """
    if folds is not None:
        targets, folds = targets.of_folds(folds), [sorted(set(folds)).index(fold) for fold in folds]
    model = sharing_copy(whole)
    blocks = attention_blocks(model)
    kept = [tuple(range(block.heads)) for block in blocks]
    changed = False

    def at(layer: int, outputs: list[Tensor], residuals: Beside) -> list[Tensor] | None:
        nonlocal changed
        block = blocks[layer]
        changed = changed or counts[layer] < block.heads
        if not changed:
            return None
        moments = targets.moments(layer, outputs, residuals)
        with single_threaded():
            total = [reduce(add, resampled(moments, folds))]
            if counts[layer] < block.heads:
                kept[layer] = tuple(sorted(choose(layer, total, counts[layer])))
            fit(block, total, kept[layer], ridge=ridges[layer])
        places = torch.from_numpy(columns_of(kept[layer], block.head_dim)).to(outputs[0].device)
        return [each.index_select(-1, places) for each in outputs]

    stops, names = [block.output for block in blocks], [block.name for block in blocks]
    beside = targets.sources_in(model)
    in_lockstep(model, targets.batches, stops, at, names=names, beside=beside, to_the_end=False)
    first = next((layer for layer, block in enumerate(targets.blocks) if counts[layer] < block.heads), 0)
    return Shrunk(model, blocks, tuple(kept), first)


def cut(whole: nn.Module, kept: Kept) -> nn.Module:
    """The whole model without the other heads, and with what is left as it is."""
    model = sharing_copy(whole)
    for block, heads in zip(attention_blocks(model), kept, strict=True):
        block.keep(heads)
    return model


def sharing_copy(whole: nn.Module) -> nn.Module:
    """A copy with attention weights of its own; all other weights are those of the original."""
    own = {
        id(weight)
        for block in attention_blocks(whole)
        for module in (block.attention, *block.projections, block.output)
        for weight in (*module.parameters(), *module.buffers())
    }
    everything = (*whole.parameters(), *whole.buffers())
    return copy.deepcopy(whole, {id(each): each for each in everything if id(each) not in own})


def resampled(moments: Sequence[Moments], folds: Sequence[int] | None) -> list[Moments]:
    """Some of the folds; one that is drawn twice counts twice."""
    if folds is None:
        return list(moments)
    drawn = Counter(folds)
    return [reduce(add, [moments[fold]] * times) for fold, times in sorted(drawn.items())]


def alone(
    whole: nn.Module, layer: int, kept_there: Sequence[int], moments: Sequence[Moments], *, ridge: float
) -> Shrunk:
    """The whole model with fewer heads in one layer, from the moments of that layer in the whole model."""
    model = sharing_copy(whole)
    blocks = attention_blocks(model)
    kept = [tuple(range(block.heads)) for block in blocks]
    kept[layer] = tuple(sorted(kept_there))
    fit(blocks[layer], moments, kept[layer], ridge=ridge)
    return Shrunk(model, blocks, tuple(kept), layer)


def moments_of(whole: nn.Module, targets: Targets) -> list[list[Moments]]:
    """Of every layer of the whole model, by fold; one pass."""
    found: dict[int, list[Moments]] = {}
    stops, names = [block.output for block in targets.blocks], [block.name for block in targets.blocks]

    def at(layer: int, outputs: list[Tensor], residuals: Beside) -> None:
        found[layer] = targets.moments(layer, outputs, residuals)

    in_lockstep(whole, targets.batches, stops, at, names=names, beside=targets.sources_in(whole))
    return [found[layer] for layer in range(len(stops))]


@single_threaded()
def ridge_of(block: AttentionBlock, moments: Sequence[Moments], kept: Sequence[int]) -> float:
    """The strength of a layer's refits, by cross-validation with these heads."""
    parts = [reduce(add, moments[start::LEFT_OUT]) for start in range(min(LEFT_OUT, len(moments)))]
    towards = weight_of(block.output).double().T
    return chosen_ridge(parts, [kept], head_dim=block.head_dim, towards=towards)


def projections_of(found: Shrunk) -> Projections:
    """W and b of every output projection."""
    return [(block.output_weight(), block.output_bias()) for block in found.blocks]


def rebuilt(whole: nn.Module, kept: Kept, projections: Projections) -> nn.Module:
    """The model with these heads and projections, without any data."""
    model = copy.deepcopy(whole)
    for block, heads, (weight, bias) in zip(attention_blocks(model), kept, projections, strict=True):
        block.keep(heads)
        block.set_output(weight, bias)
    return model
