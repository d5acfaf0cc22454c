"""The residual stream behind every attention layer, in two models at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headcount.trained.batches import Batch, real_tokens, size_of
from headcount.trained.discovery import attention_blocks
from headcount.trained.residual import first_tensor, residual_sources


class Streams:
    """What every layer writes, and what it writes that into where this is known, in the latest passes."""

    def __init__(self, whole: nn.Module, small: nn.Module, batch: Batch) -> None:
        blocks = attention_blocks(whole)
        paths = {module: name for name, module in whole.named_modules()}
        sources = [None if each is None else paths[each] for each in residual_sources(whole, blocks, batch)]
        # By their paths: with heads removed, a module may no longer look like attention.
        outputs = [paths[block.output] for block in blocks]
        self.names = [block.name for block in blocks]
        self._whole, self._small = (_Tap(model, outputs, sources) for model in (whole, small))

    @contextmanager
    def tapped(self) -> Iterator[None]:
        """Until the end of the block, passes of both models are noted."""
        hooks = [*self._whole.hooks(), *self._small.hooks()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def gap(self, batch: Batch) -> Tensor:
        """The mean over layers of |x − x'|² / |x − mean|², over real tokens."""
        gaps = []
        places: dict[tuple[int, bool], Tensor] = {}
        for name, wanted, found in zip(self.names, self._whole.streams(), self._small.streams(), strict=True):
            key = wanted.shape[:-1].numel(), "decoder" in name.split(".")
            if key not in places:
                places[key] = _real_places(batch, *key).to(wanted.device)
            one, other = (
                each.flatten(0, -2).index_select(0, places[key]).float() for each in (wanted, found)
            )
            spread = (one - one.mean(dim=0)).square().mean()
            gaps.append((one - other).square().mean() / torch.where(spread > 0, spread, 1.0))
        return torch.stack(gaps).mean()


def _real_places(batch: Batch, rows: int, decoder: bool) -> Tensor:
    """The rows of tokens, of all samples one after the other, that are not padding."""
    samples = size_of(batch)
    real = real_tokens(batch, samples, rows // samples, decoder=decoder)
    return torch.from_numpy(real.reshape(-1).nonzero()[0])


class _Tap:
    """What the layers of one model wrote in its latest pass."""

    def __init__(self, model: nn.Module, outputs: Sequence[str], sources: Sequence[str | None]) -> None:
        self.outputs = [model.get_submodule(name) for name in outputs]
        self.sources = [None if name is None else model.get_submodule(name) for name in sources]
        self.written: dict[int, Tensor] = {}
        self.into: dict[int, Tensor] = {}

    def hooks(self) -> list[Any]:
        """On every layer and what it writes into."""
        found: list[Any] = []
        for layer, (output, source) in enumerate(zip(self.outputs, self.sources, strict=True)):
            found.append(output.register_forward_hook(partial(self._note_written, layer)))
            if source is not None:
                note = partial(self._note_into, layer)
                found.append(source.register_forward_pre_hook(note, with_kwargs=True))
        return found

    def streams(self) -> list[Tensor]:
        """[..., token, number] of every layer."""
        return [self.written[layer] + self.into.get(layer, 0) for layer in range(len(self.outputs))]

    def _note_written(self, layer: int, _: nn.Module, __: Any, written: Tensor) -> None:
        self.written[layer] = written

    def _note_into(self, layer: int, _: nn.Module, arguments: Any, named: dict[str, Any]) -> None:
        tensor = first_tensor(arguments, named)
        if tensor is not None:
            self.into[layer] = tensor
