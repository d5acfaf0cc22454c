"""What the heads of a model put out, and what the whole model's layers write, at a draw of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called, real_tokens, size_of
from headcount.trained.refit import Moments

MAX_TOKENS = (
    30_000  # in all: more hardly change a fit, and what the whole model writes there is kept in memory
)
FOLDS = 5


@dataclass(frozen=True)
class Drawn:
    """Tokens of one batch in one layer: their places among all tokens of the batch, and their folds."""

    rows: Tensor
    folds: np.ndarray
    written: Tensor

    def read(self, outputs: Tensor) -> Tensor:
        """The rows of these tokens."""
        return outputs.flatten(0, -2).index_select(0, self.rows)


@dataclass(frozen=True)
class Targets:
    """What every layer of the whole model writes, at tokens drawn from every sample.

    - `drawn`: by layer and batch. A fold holds whole samples.
    """

    blocks: tuple[AttentionBlock, ...]
    batches: Sequence[Batch]
    drawn: tuple[tuple[Drawn, ...], ...]

    def moments(self, layer: int, outputs: Sequence[Tensor]) -> list[Moments]:
        """G, C and s of each fold, where the heads of a layer put out these values.

        A layer without a bias keeps none: with the sums of z and o left out, nothing is centred, and the
        fitted bias is 0.
        """
        pairs: dict[int, list[tuple[Tensor, Tensor]]] = {}
        for drawn, own in zip(self.drawn[layer], outputs, strict=True):
            heads = drawn.read(own)
            for fold in np.unique(drawn.folds):
                places = torch.from_numpy(np.flatnonzero(drawn.folds == fold)).to(heads.device)
                pairs.setdefault(int(fold), []).append((heads[places], drawn.written[places]))
        with_bias = self.blocks[layer].has_output_bias
        return [_moments(pairs[fold], with_bias=with_bias) for fold in sorted(pairs)]


def _moments(pairs: Sequence[tuple[Tensor, Tensor]], *, with_bias: bool) -> Moments:
    heads = torch.cat([one for one, _ in pairs]).double()
    written = torch.cat([other for _, other in pairs]).double()
    with_one = torch.cat([heads, torch.ones_like(heads[:, :1])], dim=1)
    gram, cross = (np.asarray((with_one.T @ each).cpu()) for each in (with_one, written))
    if not with_bias:
        gram[-1, :-1] = gram[:-1, -1] = cross[-1] = 0
    return Moments(gram, cross, float((written**2).sum()))


def targets_of(
    model: nn.Module, blocks: Sequence[AttentionBlock], batches: Sequence[Batch], *, seed: int = 0
) -> Targets:
    """One pass of the whole model."""
    total = sum(map(size_of, batches))
    per_sample = max(1, MAX_TOKENS // total)
    random = np.random.default_rng(seed)
    # In turn after shuffling, so that with few samples no fold goes without.
    folds = np.split(
        random.permutation(np.arange(total) % FOLDS), np.cumsum([size_of(batch) for batch in batches])[:-1]
    )
    drawn: list[list[Drawn]] = [[] for _ in blocks]
    for batch, own_folds in zip(batches, folds, strict=True):
        for layer, written in enumerate(written_in(model, blocks, batch)):
            block = blocks[layer]
            rows, of_rows = _draw(block, batch, written.shape, own_folds, per_sample, random)
            places = torch.from_numpy(rows).to(written.device)
            taken = written.flatten(0, -2).index_select(0, places)
            drawn[layer].append(Drawn(places, of_rows, taken))
    return Targets(tuple(blocks), batches, tuple(map(tuple, drawn)))


def written_in(model: nn.Module, blocks: Sequence[AttentionBlock], batch: Batch) -> list[Tensor]:
    """What every layer writes in a pass, [sample, token, number]."""
    found: dict[int, Tensor] = {}

    def note(layer: int, _: nn.Module, __: Any, written: Tensor) -> None:
        if layer in found:
            raise InvalidInput(
                f"{blocks[layer].name}: expected to be called once, was called again: attention that several "
                "layers share cannot be changed for one of them"
            )
        found[layer] = written.detach()

    hooks = [block.output.register_forward_hook(partial(note, layer)) for layer, block in enumerate(blocks)]
    try:
        with torch.no_grad():
            called(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    missed = [block.name for layer, block in enumerate(blocks) if layer not in found]
    if missed:
        raise InvalidInput(f"{missed[0]}: expected to be called for every batch, was not")
    written = [found[layer] for layer in range(len(blocks))]
    if not all(bool(torch.isfinite(each).all()) for each in written):
        raise InvalidInput("model: expected finite numbers inside, got NaN or infinity")
    return written


def _draw(
    block: AttentionBlock,
    batch: Batch,
    shape: torch.Size,
    folds: np.ndarray,
    per_sample: int,
    random: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows of tokens, as many of each sample at most, with their folds."""
    samples, all_rows = len(folds), int(np.prod(shape[:-1]))
    if shape[0] % samples:
        raise InvalidInput(
            f"{block.name}: expected the samples of a batch along the first axis, got {samples} samples and "
            f"outputs of the shape {tuple(shape)}"
        )
    tokens = all_rows // samples
    real = real_tokens(batch, samples, tokens, decoder="decoder" in block.name.split("."))
    order = np.argsort(np.where(real, random.random(real.shape), 2.0), axis=1)[:, :per_sample]
    rows = order + np.arange(samples)[:, None] * tokens
    kept = np.take_along_axis(real, order, axis=1)
    return rows[kept], np.broadcast_to(folds[:, None], rows.shape)[kept]
