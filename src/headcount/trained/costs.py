"""What a PyTorch model costs: parameters, multiply-adds and key-value cache."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from headcount.trained.arithmetic import attention_multiply_adds, lengths_of
from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called, part_of
from headcount.trained.causality import causal_layers
from headcount.trained.discovery import attention_blocks, prepared


@dataclass(frozen=True)
class Costs:
    """What a model costs, per sample.

    - `parameters`: of the whole model; those that several modules share count once.
    - `multiply_adds`: of all products of matrices and all convolutions in a forward pass, those inside
      attention included; pairs of tokens that a mask hides count too.
    - `attention_multiply_adds`: those of projections and products of attention, by arithmetic.
    - `tokens`: of a sample, in the layer that sees the most.
    - `cache`: numbers per token that generation keeps: 2 · kv_heads · head_dim, summed over the layers that
      look back alone; 0 where none does.
    """

    parameters: int
    multiply_adds: int
    attention_multiply_adds: int
    tokens: int
    cache: int

    @property
    def attention_share(self) -> float:
        """Of the multiply-adds, those of attention: no heads that go can save more."""
        return self.attention_multiply_adds / self.multiply_adds

    def to_json(self) -> dict[str, Any]:
        """Its numbers by name."""
        return {**asdict(self), "attention_share": self.attention_share}


def costs_of(model: nn.Module, batch: Batch) -> Costs:
    """What a model in evaluation mode costs for a sample as long as those of this batch.

    Each cost takes a forward pass of one or two samples, and the cache one more for each layer.
    """
    readable = _readable(model)
    blocks = attention_blocks(readable, whole=False)
    sample = part_of(batch, [0])
    lengths = lengths_of(readable, blocks, sample)
    causal = causal_layers(readable, blocks, batch)
    return Costs(
        parameters=sum(weight.numel() for weight in model.parameters()),
        multiply_adds=multiply_adds(readable, sample),
        attention_multiply_adds=sum(
            attention_multiply_adds(block, each) for block, each in zip(blocks, lengths, strict=True)
        ),
        tokens=max(each.tokens for each in lengths),
        cache=sum(_cached(block) for block, keeps in zip(blocks, causal, strict=True) if keeps),
    )


def multiply_adds(model: nn.Module, batch: Batch) -> int:
    """Of one forward pass: all products of matrices and convolutions.

    >>> multiply_adds(nn.Linear(3, 2), torch.zeros(5, 3))
    30
    """
    # Of attention in its plain form every product is counted; of the fused forms, on some devices alone.
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        called(model, batch)
    return int(counter.get_total_flops()) // 2


def _readable(model: nn.Module) -> nn.Module:
    """The model, or an equal one whose attention can be seen."""
    hidden = any(isinstance(module, nn.MultiheadAttention) for module in model.modules())
    return prepared(model) if hidden else model


def _cached(block: AttentionBlock) -> int:
    return 2 * block.kv_heads * block.head_dim
