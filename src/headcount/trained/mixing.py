"""Samples of all batches, mixed anew for every step of training."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from headcount.trained.batches import MASKS, Batch, part_of, size_of


def mixed(batches: Sequence[Batch], size: int, *, seed: int) -> Iterator[Batch]:
    """Batches of at most so many random samples, without end; each sample once before any comes again.

    Texts of different lengths are padded to the longest among them. Samples that differ in shape otherwise
    never share a batch.

    >>> epoch = mixed([torch.zeros(3, 2), torch.zeros(1, 2)], 2, seed=0)
    >>> [size_of(next(epoch)) for _ in range(2)]
    [2, 2]
    """
    random = np.random.default_rng(seed)
    pools = _pools(batches)
    while True:
        drawn = []
        for place, pool in enumerate(pools):
            order = random.permutation(size_of(pool))
            drawn += [(place, order[start : start + size]) for start in range(0, len(order), size)]
        for number in random.permutation(len(drawn)):
            place, samples = drawn[number]
            yield _trimmed(part_of(pools[place], samples.tolist()))


def _pools(batches: Sequence[Batch]) -> list[Batch]:
    """The batches that can be joined, joined."""
    alike: dict[Hashable, list[Batch]] = {}
    for batch in batches:
        alike.setdefault(_shape(batch), []).append(batch)
    return [_joined(each) for each in alike.values()]


def _shape(part: Any, tokens: int | None = None) -> Hashable:
    """What two batches must have in common to be joined; the length of padded texts need not be."""
    if isinstance(part, Tensor):
        if not part.dim():
            return part.item()
        return part.dtype, ("tokens", *part.shape[2:]) if tokens is not None else part.shape[1:]
    if isinstance(part, Mapping):
        return tuple((name, _shape(each, _tokens(part, name))) for name, each in sorted(part.items()))
    if isinstance(part, tuple):
        return tuple(map(_shape, part))
    return "list" if isinstance(part, list) else repr(part)


def _tokens(batch: Mapping[str, Any], name: str) -> int | None:
    """The length of a named input that has a value for each token of a mask; None for any other."""
    part, mask = batch[name], _mask_of(batch, name)
    if mask is None or not isinstance(part, Tensor) or part.shape[:2] != mask.shape:
        return None
    return mask.shape[1]


def _mask_of(batch: Mapping[str, Any], name: str) -> Tensor | None:
    """The mask of an input: decoders have one of their own."""
    own, decoder = (batch.get(mask) for mask in MASKS)
    mask = decoder if name.startswith("decoder") else own
    return mask if isinstance(mask, Tensor) and mask.dim() == 2 else None


def _joined(parts: Sequence[Any], *, padded: bool = False) -> Any:
    first = parts[0]
    if isinstance(first, Tensor):
        if not first.dim():
            return first
        longest = max(part.shape[1] for part in parts) if padded else 0
        return torch.cat([_padded(part, longest) if padded else part for part in parts])
    if isinstance(first, Mapping):
        return {
            name: _joined([part[name] for part in parts], padded=_tokens(first, name) is not None)
            for name in first
        }
    if isinstance(first, tuple):
        return tuple(map(_joined, zip(*parts, strict=True)))
    return [each for part in parts for each in part] if isinstance(first, list) else first


def _padded(part: Tensor, length: int) -> Tensor:
    """Zeros at the end of every sample: where the mask is zero too, they mean nothing."""
    return functional.pad(part, [*[0, 0] * (part.dim() - 2), 0, length - part.shape[1]])


def _trimmed(batch: Batch) -> Batch:
    """Without the tokens at the end that no sample has."""
    if isinstance(batch, tuple):
        return (_trimmed(batch[0]), *batch[1:])
    if not isinstance(batch, Mapping):
        return batch
    lengths = {name: _longest(_mask_of(batch, name)) for name in batch if _tokens(batch, name) is not None}
    return {name: part[:, : lengths[name]] if name in lengths else part for name, part in batch.items()}


def _longest(mask: Tensor | None) -> int:
    assert mask is not None, "only inputs with a mask are trimmed"
    there = mask.bool().any(dim=0).nonzero()
    return int(there[-1]) + 1 if len(there) else mask.shape[1]
