"""A folder that transformers loads as it is, where the config of the architecture can hold the counts.

Whether it can is found by asking: the config is given the counts, a model without memory is built from it,
and its attention must have the wanted shapes.
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass
from math import lcm
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headcount.trained.attention import KEY, VALUE, AttentionBlock
from headcount.trained.discovery import COUNTS, attention_blocks
from headcount.trained.export.smaller import (
    CannotHold,
    Loading,
    Smaller,
    auto_classes,
    no_bars,
    transformers_class,
)
from headcount.trained.families.t5 import BIAS

KV_HEADS, HEAD_DIM = "num_key_value_heads", "head_dim"


@dataclass(frozen=True)
class Counts:
    """The attention of a model whose layers are alike."""

    heads: int
    kv_heads: int
    head_dim: int

    @classmethod
    def of(cls, block: AttentionBlock) -> "Counts":
        """Of one layer."""
        return cls(block.heads, block.kv_heads, block.head_dim)


def write(smaller: Smaller, folder: Path) -> Loading:
    """Config and weights; one line where the config cannot hold the counts."""
    made = transformers_class("stock", smaller.whole)
    if smaller.values_only:
        keys, values = smaller.blocks[0].kv_heads, smaller.blocks[0].value_heads
        raise CannotHold(
            f"stock: expected as many values as keys, {keys}, the only number that "
            f"{type(smaller.whole.config).__name__} can hold, got {values}"
        )
    counts = _alike(smaller)
    model: Any = smaller.model
    found = _config_with(model, counts)
    if found is None:
        raise CannotHold(_refusal(smaller, counts))
    config, names = found
    saved = copy.copy(model)
    saved.config = config
    with no_bars():
        saved.save_pretrained(folder, state_dict=_shared(model.state_dict(), names))
        smaller.check("stock", lambda: made.from_pretrained(folder, local_files_only=True).eval())
    name = next(iter(auto_classes(model)), made.__name__)
    return Loading(
        (f"from transformers import {name}", "", f'model = {name}.from_pretrained("{{folder}}")'),
        "transformers",
    )


def _alike(smaller: Smaller) -> Counts:
    """The one count of all layers; key-value heads are repeated where layers differ in them alone."""
    heads = {block.heads for block in smaller.blocks}
    if len(heads) > 1:
        raise CannotHold(
            f"stock: expected one number of heads for all layers, got {min(heads)} to {max(heads)} in the "
            f"{smaller.solution} solution"
        )
    kv_heads = lcm(*(block.kv_heads for block in smaller.blocks))
    for block in smaller.blocks:
        if block.kv_heads < kv_heads:
            _repeat_kv_heads(block, kv_heads // block.kv_heads)
    shapes = {Counts.of(block) for block in smaller.blocks}
    if len(shapes) > 1:
        raise CannotHold("stock: expected layers with heads of one size, got several")
    return shapes.pop()


def _repeat_kv_heads(block: AttentionBlock, times: int) -> None:
    def repeated(values: Any) -> Any:
        return None if values is None else np.repeat(values, times, axis=0)

    weights = (repeated(block.weights(which)) for which in (KEY, VALUE))
    block.share(*weights, *(repeated(block.biases(which)) for which in (KEY, VALUE)))


def _config_with(model: Any, counts: Counts) -> tuple[Any, set[str]] | None:
    """The model's config with these counts, and the names of the weights it then has; None if it cannot."""
    try:
        config = _with_counts(model.config, counts)
        with torch.device("meta"):
            empty = type(model)(config)
        held = {Counts.of(block) for block in attention_blocks(empty)} == {counts}
    except Exception:  # each config refuses a count in its own way
        return None
    return (config, set(empty.state_dict())) if held else None


def _with_counts(config: Any, counts: Counts) -> Any:
    """As if it were read from a file, so that whatever it checks it checks."""
    config = copy.deepcopy(config)
    for name in COUNTS:
        if hasattr(config, name):
            setattr(config, name, counts.heads)
    if hasattr(config, KV_HEADS):
        setattr(config, KV_HEADS, counts.kv_heads)
    setattr(config, HEAD_DIM, counts.head_dim)  # a module may read one that its config does not list
    return type(config).from_dict(config.to_dict())


def _refusal(smaller: Smaller, counts: Counts) -> str:
    name = type(smaller.model.config).__name__
    if counts.kv_heads < counts.heads and not hasattr(smaller.model.config, KV_HEADS):
        return (
            f"stock: expected as many key-value heads as heads, {counts.heads}, the only number that {name} "
            f"can hold, got {counts.kv_heads}"
        )
    whole = Counts.of(attention_blocks(smaller.whole)[0])
    below, above = range(counts.heads - 1, 0, -1), range(counts.heads + 1, whole.heads + 1)
    nearest = [_first_held(smaller.model, heads, counts, whole) for heads in (below, above)]
    named = " or ".join(str(heads) for heads in nearest if heads is not None)
    return (
        f"stock: expected a number of heads that {name} can hold, such as "
        f"{named or whole.heads}, got {counts.heads}"
    )


def _first_held(model: Any, possible: Iterable[int], counts: Counts, whole: Counts) -> int | None:
    """The first of these counts of heads that the config holds."""
    for heads in possible:
        kv_heads = whole.kv_heads if heads % whole.kv_heads == 0 else heads
        if _config_with(model, Counts(heads, kv_heads, counts.head_dim)) is not None:
            return heads
    return None


def _shared(state: dict[str, Tensor], names: set[str]) -> dict[str, Tensor]:
    """The weights without the copies of a table that stock layers share, which must still be equal."""
    for name in state.keys() - names:
        stack = name.partition(".block.")[0]
        first = next((each for each in names if each.startswith(f"{stack}.block.0.") and BIAS in each), None)
        if BIAS not in name or first is None or not torch.equal(state[name], state[first]):
            raise CannotHold(
                f"stock: expected the same heads in all layers of {stack}, which share one table of position "
                "biases, got others"
                if BIAS in name
                else f"stock: {name} is no weight of the architecture"
            )
    return {name: each for name, each in state.items() if name in names}
