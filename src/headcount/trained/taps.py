"""What the heads of a model put out, and what the whole model's layers write, at a draw of tokens."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from headcount.errors import InvalidInput
from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called, part_of, real_tokens, size_of
from headcount.trained.refit import Moments
from headcount.trained.residual import first_tensor, residual_sources

MAX_TOKENS = (
    30_000  # in all: more hardly change a fit, and what the whole model writes there is kept in memory
)
FOLDS = 10


@dataclass(frozen=True)
class Drawn:
    """Tokens of one batch in one layer: their places among all tokens of the batch, and their folds.

    - `wanted`: what the whole model's layer writes, and, where it is known, what it writes that into.
    - `scale`: the square root of what a token weighs, so that samples weigh alike.
    - `tokens`: of each sample, drawn or not.
    """

    rows: Tensor
    folds: np.ndarray
    wanted: Tensor
    scale: Tensor
    tokens: int

    def read(self, outputs: Tensor) -> Tensor:
        """The rows of these tokens."""
        return outputs.flatten(0, -2).index_select(0, self.rows)

    def samples_of(self, folds: Collection[int]) -> list[int]:
        """The samples of these folds."""
        samples: np.ndarray = np.asarray(self.rows.cpu()) // self.tokens
        return np.unique(samples[np.isin(self.folds, list(folds))]).tolist()

    def only(self, samples: Sequence[int]) -> "Drawn":
        """The tokens of these samples, when the batch holds no others."""
        rows = np.asarray(self.rows.cpu())
        kept = np.flatnonzero(np.isin(rows // self.tokens, samples))
        moved = np.searchsorted(samples, rows[kept] // self.tokens) * self.tokens + rows[kept] % self.tokens
        places = torch.from_numpy(kept).to(self.rows.device)
        return Drawn(
            torch.from_numpy(moved).to(self.rows.device),
            self.folds[kept],
            self.wanted[places],
            self.scale[places],
            self.tokens,
        )


@dataclass(frozen=True)
class Targets:
    """What every layer of the whole model writes, at tokens drawn from every sample.

    - `drawn`: by layer and batch. A fold holds whole samples.
    - `sources`: of each layer, the path of the module whose input it writes into; None where not known.
    """

    blocks: tuple[AttentionBlock, ...]
    batches: Sequence[Batch]
    drawn: tuple[tuple[Drawn, ...], ...]
    sources: tuple[str | None, ...]

    def sources_in(self, model: nn.Module) -> list[nn.Module | None]:
        """These modules in a copy of the model."""
        return [None if name is None else model.get_submodule(name) for name in self.sources]

    @property
    def folds(self) -> list[int]:
        """Those that hold samples."""
        return sorted({int(fold) for drawn in self.drawn[0] for fold in np.unique(drawn.folds)})

    def of_folds(self, folds: Collection[int]) -> "Targets":
        """Of the samples of some folds, and no others."""
        kept = [drawn.samples_of(folds) for drawn in self.drawn[0]]
        there = [place for place, samples in enumerate(kept) if samples]
        return replace(
            self,
            batches=[part_of(self.batches[place], kept[place]) for place in there],
            drawn=tuple(tuple(layer[place].only(kept[place]) for place in there) for layer in self.drawn),
        )

    def moments(
        self, layer: int, outputs: Sequence[Tensor], residuals: Sequence[Tensor | None]
    ) -> list[Moments]:
        """G, C and s of each fold, where the heads of a layer put out these values.

        What the layer should write takes the residual stream to where it is in the whole model, from where it
        now is. A layer without a bias keeps none: with the sums of z and o left out, nothing is centred, and
        the fitted bias is 0.
        """
        parts = []
        for drawn, own, residual in zip(self.drawn[layer], outputs, residuals, strict=True):
            heads, wanted = drawn.read(own).double(), drawn.wanted.double()
            if residual is not None:
                wanted = wanted - drawn.read(residual).double()
            with_one = torch.cat([heads, torch.ones_like(heads[:, :1])], dim=1)
            parts.append((with_one * drawn.scale, wanted * drawn.scale))
        folds = np.concatenate([drawn.folds for drawn in self.drawn[layer]])
        order = torch.from_numpy(np.argsort(folds, kind="stable")).to(parts[0][0].device)
        sizes = np.unique(folds, return_counts=True)[1].tolist()
        by_fold = [torch.cat(each)[order].split(sizes) for each in zip(*parts, strict=True)]
        with_bias = self.blocks[layer].has_output_bias
        found = [_moments(*pair, with_bias=with_bias) for pair in zip(*by_fold, strict=True)]
        usable = torch.stack([each.usable for each in found]).tolist()
        if not all(usable):
            raise found[usable.index(False)].unusable()
        return found


def _moments(heads: Tensor, written: Tensor, *, with_bias: bool) -> Moments:
    gram, cross = heads.T @ heads, heads.T @ written
    if not with_bias:
        gram[-1, :-1] = gram[:-1, -1] = cross[-1] = 0
    return Moments(gram, cross, (written**2).sum())


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
    sources = residual_sources(model, blocks, batches[0])
    for batch, own_folds in zip(batches, folds, strict=True):
        for layer, written in enumerate(written_in(model, blocks, batch, sources)):
            block = blocks[layer]
            rows, of_rows = _draw(block, batch, written.shape, own_folds, per_sample, random)
            drawn[layer].append(_taken(written, rows, of_rows, samples=size_of(batch)))
    names = {module: name for name, module in model.named_modules()}
    paths = tuple(None if source is None else names[source] for source in sources)
    return Targets(tuple(blocks), batches, tuple(map(tuple, drawn)), paths)


def _taken(wanted: Tensor, rows: np.ndarray, folds: np.ndarray, *, samples: int) -> Drawn:
    """The rows of a batch, each weighed by one over those of its sample."""
    tokens = int(np.prod(wanted.shape[:-1])) // samples
    of_rows = rows // tokens
    scale = np.bincount(of_rows)[of_rows, None] ** -0.5
    places = torch.from_numpy(rows).to(wanted.device)
    taken = wanted.flatten(0, -2).index_select(0, places)
    return Drawn(places, folds, taken, torch.from_numpy(scale).to(wanted.device), tokens)


def written_in(
    model: nn.Module,
    blocks: Sequence[AttentionBlock],
    batch: Batch,
    sources: Sequence[nn.Module | None] | None = None,
) -> list[Tensor]:
    """What every layer writes in a pass, [sample, token, number], and what `sources` are given on top."""
    found: dict[int, Tensor] = {}
    into: dict[int, Tensor] = {}

    def note_source(layer: int, _: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        tensor = first_tensor(arguments, named)
        if tensor is not None:
            into[layer] = tensor.detach()

    def note(layer: int, _: nn.Module, __: Any, written: Tensor) -> None:
        if layer in found:
            raise InvalidInput(
                f"{blocks[layer].name}: expected to be called once, was called again: attention that several "
                "layers share cannot be changed for one of them"
            )
        found[layer] = written.detach()

    hooks = [block.output.register_forward_hook(partial(note, layer)) for layer, block in enumerate(blocks)]
    hooks += [
        source.register_forward_pre_hook(partial(note_source, layer), with_kwargs=True)
        for layer, source in enumerate(sources or ())
        if source is not None
    ]
    try:
        with torch.no_grad():
            called(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    missed = [block.name for layer, block in enumerate(blocks) if layer not in found]
    if missed:
        raise InvalidInput(f"{missed[0]}: expected to be called for every batch, was not")
    written = [found[layer] + into.get(layer, 0) for layer in range(len(blocks))]
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
