"""A whole model with fewer key-value heads, its output projections refitted from the bottom up."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, collected
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.fitting import fit, ridge_of, sharing_copy
from headcount.trained.inputs import input_moments
from headcount.trained.lockstep import Beside, in_lockstep
from headcount.trained.rotary_keys import rotary_grams
from headcount.trained.scores import scores_of
from headcount.trained.sharing import METHODS, LayerMetric, Method, SharedHeads, check_count, shared_heads
from headcount.trained.taps import Targets, targets_of
from headcount.validation import check_choice


@dataclass(frozen=True, eq=False)
class Grouped:
    """A model with fewer key-value heads.

    - `layers`: the weights of its attention, with which `apply_grouping` makes it again without any data.
    """

    model: nn.Module
    blocks: tuple[AttentionBlock, ...]
    kv_heads: int
    layers: tuple[SharedHeads, ...]


def metrics_of(whole: nn.Module, batches: Sequence[Batch]) -> tuple[LayerMetric, ...]:
    """What grouping reads of a model besides its weights, by layer: made once for all counts and methods.

    Values alone are shared in all layers where keys cannot be in one: with norms on queries and keys, with a
    rotary embedding of a part of each head, or with one map for queries, keys and values.
    """
    blocks = attention_blocks(whole)
    moments, found = input_moments(whole, blocks, batches), scores_of(whole, batches[0])
    scores = [each for each in found if each is not None]
    if len(scores) < len(blocks) or any(block.layout.groups is None for block in blocks):
        return tuple(LayerMetric(each, None, None) for each in moments)
    return tuple(map(LayerMetric, moments, scores, rotary_grams(whole, blocks, batches, scores)))


def grouped(
    whole: nn.Module,
    given: Targets | Iterable[Batch],
    kv_heads: int,
    *,
    method: Method = "joint",
    refit: bool = True,
    choose: bool = True,
    metrics: Sequence[LayerMetric] | None = None,
) -> Grouped:
    """The whole model with so many key-value heads in every layer, of which it may have had few before.

    - `given`: the targets of a prepared model, or batches and any model.
    - `method`: "joint" (SVD), or the baselines "procrustes" and "mean".
    - `refit`: whether output projections are fitted anew to what the whole model writes.
    - `choose`: whether heads that are alike share; otherwise neighbours do.
    """
    check_choice("method", method, METHODS)
    if not isinstance(given, Targets):
        whole, batches = prepared(whole), collected(given)
        given = targets_of(whole, attention_blocks(whole), batches)
    model = sharing_copy(whole)
    blocks = attention_blocks(model)
    metrics = metrics or metrics_of(whole, given.batches)
    check_counts(blocks, metrics, kv_heads)
    orders = []
    for block, metric in zip(blocks, metrics, strict=True):
        shared = shared_heads(block, metric, kv_heads, method=method, choose=choose)
        shared.put_into(block)
        orders.append(shared.order)
    if refit:
        refit_outputs(model, blocks, given)
    _note_in_config(model, blocks[0].kv_heads)
    layers = tuple(SharedHeads.read(block, order) for block, order in zip(blocks, orders, strict=True))
    return Grouped(model, blocks, kv_heads, layers)


def check_counts(blocks: Sequence[AttentionBlock], metrics: Sequence[LayerMetric], kv_heads: int) -> None:
    """Refuse a number of key-value heads that some layer cannot have."""
    for block, metric in zip(blocks, metrics, strict=True):
        check_count(block, kv_heads, values_only=metric.values_only)


def refit_outputs(model: nn.Module, blocks: Sequence[AttentionBlock], targets: Targets) -> None:
    """Fit every output projection to what the whole model writes, on the inputs that layers now get."""

    def at(layer: int, outputs: list[Tensor], residuals: Beside) -> None:
        block, moments = blocks[layer], targets.moments(layer, outputs, residuals)
        heads = range(block.heads)
        fit(block, moments, heads, ridge=ridge_of(block, moments, heads))

    stops, names = [block.output for block in blocks], [block.name for block in blocks]
    in_lockstep(model, targets.batches, stops, at, names=names, beside=targets.sources_in(model))


def apply_grouping(whole: nn.Module, layers: Sequence[SharedHeads]) -> nn.Module:
    """A copy of the model with these attention weights, without any data."""
    model = prepared(whole)
    blocks = attention_blocks(model)
    if len(blocks) != len(layers):
        raise InvalidInput(f"grouping: expected weights for {len(blocks)} layers, got {len(layers)}")
    for block, shared in zip(blocks, layers, strict=True):
        check_count(block, len(shared.values), values_only=shared.values_only)
        shared.put_into(block)
    _note_in_config(model, len(layers[0].keys))
    return model


def _note_in_config(model: nn.Module, kv_heads: int) -> None:
    """So that a model whose config holds the count is saved with the right one."""
    config: Any = getattr(model, "config", None)
    if getattr(config, "num_key_value_heads", None) is not None:
        config.num_key_value_heads = kv_heads
