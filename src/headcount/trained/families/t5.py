"""T5, whose first layer makes a bias of positions for each head and hands it to all others."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from headcount.trained.families.separate import GROUPS
from headcount.trained.layout import Layout
from headcount.trained.linear import take

BIAS = "relative_attention_bias"


def own_position_bias(
    attention: nn.Module, arguments: Any, named: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Have the layer compute its bias: the one it is handed is for the heads of the first layer."""
    return arguments, {**named, "position_bias": None}


def give_own_bias(attention: nn.Module, table: nn.Embedding) -> None:
    """A table of its own, which can then lose columns, in place of the first layer's."""
    attention.relative_attention_bias = nn.Embedding.from_pretrained(
        table.weight.detach().clone(), freeze=False
    )
    attention.has_relative_attention_bias = True


def _keep_bias(attention: nn.Module, kept: Sequence[int]) -> None:
    table = getattr(attention, BIAS, None)
    if table is not None:
        columns = take(table.weight.detach(), list(kept), dim=1)
        give_own_bias(attention, nn.Embedding.from_pretrained(columns))


T5 = Layout(
    "T5",
    ("q", "k", "v"),
    "o",
    head_dim="key_value_proj_dim",
    heads="n_heads",
    joined=("inner_dim",),
    groups=GROUPS,
    beside=(BIAS,),
    adapt=_keep_bias,
)


def separate_biases(model: nn.Module) -> None:
    """Let every self-attention of a T5 compute the bias of its own heads, from a copy of the one
    table; those that have a table of their own keep it.
    """
    for stack in model.modules():
        layers = getattr(stack, "block", None)
        if not isinstance(layers, nn.ModuleList) or not len(layers):
            continue
        for layer in layers:
            for sublayer in layer.layer:
                attention = getattr(sublayer, "SelfAttention", None) or getattr(
                    sublayer, "EncDecAttention", None
                )
                if attention is None:
                    continue
                if hasattr(sublayer, "SelfAttention") and not attention.has_relative_attention_bias:
                    give_own_bias(attention, layers[0].layer[0].SelfAttention.relative_attention_bias)
                if own_position_bias not in attention._forward_pre_hooks.values():
                    attention.register_forward_pre_hook(own_position_bias, with_kwargs=True)
