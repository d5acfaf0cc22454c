"""Attention with one linear map for queries, keys and values together: GPT-2, and timm's vision models."""

from collections.abc import Sequence

from torch import nn

from headcount.trained.layout import Layout


def _resplit(attention: nn.Module, kept: Sequence[int]) -> None:
    # GPT-2 takes the three apart by this number, the width of each.
    attention.split_size = len(kept) * attention.head_dim


GPT2 = Layout(
    "GPT-2",
    ("c_attn",),
    "c_proj",
    head_dim="head_dim",
    heads="num_heads",
    adapt=_resplit,
)
TIMM = Layout("timm", ("qkv",), "proj", head_dim="head_dim", heads="num_heads", joined=("attn_dim",))

FUSED = (GPT2, TIMM)
