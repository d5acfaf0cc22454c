"""What fewer heads can save at most, by arithmetic alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.attention import QUERY, AttentionBlock
from headcount.trained.batches import Batch, called
from headcount.trained.linear import weight_of
from headcount.validation import check_integer

FEEDFORWARD = 4  # times the width


def saved_at_most(*, heads: int, kept: int, width: int, length: int, feedforward: int | None = None) -> float:
    r"""(1 − k/h) · (4d + 2T) / (4d + 2T + 2f): the share of a layer's multiply-adds that k of h heads save.

    A token costs d² multiply-adds for each of the queries, keys, values and outputs, T·d for its scores and
    T·d for the mean of the values, and 2·d·f in the feed-forward network (f = 4d unless given). All but the
    last are divided evenly over the heads. A d is common to all terms. Embeddings and a classifier are on
    top of this, so the whole model saves less.

    >>> [round(saved_at_most(heads=12, kept=6, width=768, length=T), 3) for T in (128, 2048)]
    [0.176, 0.269]
    """
    heads = check_integer("heads", heads, at_least=1)
    kept = check_integer("kept", kept, at_least=1, at_most=heads)
    width = check_integer("width", width, at_least=1)
    length = check_integer("length", length, at_least=1)
    feedforward = FEEDFORWARD * width if feedforward is None else feedforward
    feedforward = check_integer("feedforward", feedforward, at_least=0)
    attention = 4 * width + 2 * length
    return (1 - kept / heads) * attention / (attention + 2 * feedforward)


@dataclass(frozen=True)
class Lengths:
    """How many sequences the attention of a layer sees of a sample, and how long they are.

    - `sequences`: one, but for layers that attend in windows.
    """

    sequences: int
    queries: int
    keys: int

    @property
    def tokens(self) -> int:
        """Of all sequences together."""
        return self.sequences * self.queries


def attention_multiply_adds(block: AttentionBlock, lengths: Lengths) -> int:
    """Of a sample: one for each weight and token, and 2·h·n for each pair of a query and a key.

    Pairs that a mask hides are counted, as most kernels compute them.
    """
    joined, shared = block.heads * block.head_dim, (block.kv_heads + block.value_heads) * block.head_dim
    read = [weight_of(each).shape[1] for each in block.projections]
    on_queries = lengths.queries * joined * (read[QUERY] + block.width)
    on_keys = lengths.keys * shared * read[-1]
    return lengths.sequences * (on_queries + on_keys + lengths.queries * lengths.keys * 2 * joined)


def lengths_of(model: nn.Module, blocks: Sequence[AttentionBlock], sample: Batch) -> tuple[Lengths, ...]:
    """Of every block, what it sees of a single sample; one pass."""
    shapes: dict[nn.Module, tuple[int, ...]] = {}

    def note(projection: nn.Module, _: object, made: Tensor) -> None:
        shapes[projection] = tuple(made.shape[:-1])

    ends = [(block.projections[QUERY], block.projections[-1]) for block in blocks]
    hooks = [each.register_forward_hook(note) for each in {each for pair in ends for each in pair}]
    try:
        with torch.no_grad():
            called(model, sample)
    finally:
        for hook in hooks:
            hook.remove()
    for block, pair in zip(blocks, ends, strict=True):
        if any(each not in shapes for each in pair):
            raise InvalidInput(f"{block.name}: expected to be called for every batch, was not")
    return tuple(
        Lengths(prod(shapes[query][:-1]), shapes[query][-1], shapes[value][-1]) for query, value in ends
    )
