"""`torch.nn.MultiheadAttention`, which is exchanged for an equal module with projections of its own.

The original multiplies with its output weight without calling that module, and in a `TransformerEncoder` not
even itself is called, so that no hook could see what its heads put out; nor can it have heads of another
width than width / heads.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from headcount.errors import InvalidInput
from headcount.trained.layout import Layout
from headcount.trained.linear import shares_weights, take


class SeparateAttention(nn.Module):
    """What `nn.MultiheadAttention` computes, with any number of heads and of key-value heads."""

    # Without these, `nn.TransformerEncoderLayer` would pass this module over with a kernel of its own.
    in_proj_bias = in_proj_weight = None
    _qkv_same_embed_dim = False

    def __init__(
        self, query: nn.Linear, key: nn.Linear, value: nn.Linear, output: nn.Linear, heads: int
    ) -> None:
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = query, key, value, output
        self.num_heads, self.num_key_value_groups = heads, 1
        self.head_dim = query.out_features // heads
        self.dropout, self.batch_first = 0.0, False
        self.register_buffer("of_mask", torch.arange(heads), persistent=False)
        self.masked_heads = heads

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As `nn.MultiheadAttention.forward`."""
        unbatched = query.dim() == 2
        if unbatched:
            query, key, value = (each.unsqueeze(0) for each in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        queries = self._split(self.q_proj(query))
        keys, values = (
            self._split(project(each)).repeat_interleave(self.num_key_value_groups, dim=1)
            for project, each in ((self.k_proj, key), (self.v_proj, value))
        )
        mask = self._mask(attn_mask, key_padding_mask, queries, keys)
        scores = queries @ keys.transpose(2, 3) * self.head_dim**-0.5
        weights = functional.softmax(scores if mask is None else scores + mask, dim=-1)
        dropped = functional.dropout(weights, self.dropout, self.training)
        outputs = self.out_proj((dropped @ values).transpose(1, 2).flatten(2))
        if unbatched:
            outputs, weights = outputs.squeeze(0), weights.squeeze(0)
        elif not self.batch_first:
            outputs = outputs.transpose(0, 1)
        if not need_weights:
            return outputs, None
        return outputs, weights.mean(dim=-3) if average_attn_weights else weights

    def _split(self, joined: Tensor) -> Tensor:
        return joined.unflatten(2, (-1, self.head_dim)).transpose(1, 2)

    def _mask(
        self, attn_mask: Tensor | None, padding: Tensor | None, queries: Tensor, keys: Tensor
    ) -> Tensor | None:
        """Both masks as what is added to the scores; those of removed heads are left out."""
        mask = None
        if attn_mask is not None:
            mask = _added(attn_mask, queries)
            if mask.dim() == 3:
                whole = mask.view(len(queries), self.masked_heads, *mask.shape[1:])
                mask = whole.index_select(1, self.of_mask)
        if padding is not None:
            hidden = _added(padding, queries)[:, None, None, :]
            mask = hidden if mask is None else mask + hidden
        return mask


def _added(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros(mask.shape, dtype=like.dtype, device=like.device).masked_fill(mask, -torch.inf)


def separated(attention: nn.MultiheadAttention, name: str) -> SeparateAttention:
    """The module in place of an `nn.MultiheadAttention`, with copies of its weights."""
    if attention.bias_k is not None or attention.add_zero_attn:
        raise InvalidInput(
            f"{name}: expected no add_bias_kv and no add_zero_attn, whose extra token is not known"
        )
    if attention.in_proj_weight is not None:
        weights: Sequence[Tensor] = attention.in_proj_weight.chunk(3)
    else:
        weights = attention.q_proj_weight, attention.k_proj_weight, attention.v_proj_weight
    biases = [None] * 3 if attention.in_proj_bias is None else attention.in_proj_bias.chunk(3)
    query, key, value = (_linear(weight, bias) for weight, bias in zip(weights, biases, strict=True))
    output = _linear(attention.out_proj.weight, attention.out_proj.bias)
    made = SeparateAttention(query, key, value, output, attention.num_heads)
    made.dropout, made.batch_first = attention.dropout, attention.batch_first
    made.to(attention.out_proj.weight.device)
    return made.train(attention.training)


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    outputs, inputs = weight.shape
    made = nn.Linear(inputs, outputs, bias=bias is not None, device=weight.device, dtype=weight.dtype)
    with torch.no_grad():
        made.weight.copy_(weight)
        if bias is not None:
            made.bias.copy_(bias)
    return made


def _keep_masks(attention: nn.Module, kept: Sequence[int]) -> None:
    attention.of_mask = take(attention.of_mask, list(kept), dim=0)


MULTIHEAD = Layout(
    "torch.nn.MultiheadAttention",
    ("q_proj", "k_proj", "v_proj"),
    "out_proj",
    head_dim="head_dim",
    heads="num_heads",
    groups="num_key_value_groups",
    adapt=_keep_masks,
)


def _refuse_shared(model: nn.Module) -> None:
    """Copies would hide that two layers have the same weights."""
    seen: dict[int, str] = {}
    for path, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            for weight in (module.in_proj_weight, module.out_proj.weight):
                other = seen.setdefault(id(weight), path)
                if weight is not None and other != path:
                    raise shares_weights(path, other)


def separate_all(model: nn.Module) -> None:
    """Exchange every `nn.MultiheadAttention` in the model."""
    _refuse_shared(model)
    for path, parent in list(model.named_modules()):
        if isinstance(parent, nn.TransformerEncoder):
            parent.use_nested_tensor = False  # which only its own kernel takes
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.MultiheadAttention):
                setattr(parent, name, separated(child, f"{path}.{name}".removeprefix(".")))
