"""What a model does before one of its layers, kept: models that differ from there on need not do it again."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called, part_of, size_of, tensors_in

SAMPLES = 2  # to try on whether a model can go on from there
ROUNDING = 1e-5  # of the largest output
MAX_NUMBERS = 2**28  # to keep, of all batches together


class _Begun(BaseException):
    """The layer has been reached."""


class Prefix:
    """What the modules put out that finish before an attention layer begins, batch by batch.

    In another model whose modules of these names are the same, each gives that without any work. What a model
    changes in place is not kept; where it does so later, nothing is given from then on.
    """

    def __init__(self, whole: nn.Module, block: AttentionBlock, batches: Sequence[Batch]) -> None:
        self.outputs: list[dict[str, Any]] = []
        numbers = 0
        for batch in batches:
            self.outputs.append(_finished(whole, block, batch))
            numbers += sum(each.numel() for each in tensors_in(self.outputs[-1]))
            if numbers > MAX_NUMBERS:
                self.outputs = [{} for _ in batches]
                break
        self.versions = self._versions()

    @contextmanager
    def given(self, model: nn.Module, number: int) -> Iterator[None]:
        """To the modules of a model, those of one batch."""
        if self._versions() != self.versions:
            self.outputs = [{} for _ in self.outputs]
            self.versions = self._versions()
        replaced = [
            _Giving(model.get_submodule(name), output) for name, output in self.outputs[number].items()
        ]
        try:
            yield
        finally:
            for each in replaced:
                each.end()

    def _versions(self) -> list[int]:
        """Tensors count how often they were changed in place."""
        return [each._version for outputs in self.outputs for each in tensors_in(outputs)]


class _Giving:
    """A forward pass that gives what is kept, once: a module that is called again behind the layer works."""

    def __init__(self, module: nn.Module, output: Any) -> None:
        self.module, self.output = module, output
        self.own = module.__dict__.get("forward")
        module.forward = self

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.end()
        return self.output

    def end(self) -> None:
        """The module with a forward pass of its own again."""
        if self.module.__dict__.get("forward") is not self:
            return
        if self.own is None:
            del self.module.forward
        else:
            self.module.forward = self.own


class Prefixes:
    """Of one layer at a time, for lists of batches."""

    def __init__(self, whole: nn.Module, blocks: Sequence[AttentionBlock]) -> None:
        self.whole, self.blocks = whole, blocks
        self.layer: int | None = None
        self.known: dict[int, tuple[Sequence[Batch], Prefix]] = {}
        self.resuming = False

    def of(self, layer: int, batches: Sequence[Batch]) -> Prefix | None:
        """None where there is nothing to keep, or the model cannot go on from there."""
        if layer != self.layer:
            self.known = {}
            self.layer, self.resuming = layer, resumes(self.whole, self.blocks[layer], batches[0])
        if not self.resuming:
            return None
        if id(batches) not in self.known:
            self.known[id(batches)] = batches, Prefix(self.whole, self.blocks[layer], batches)
        return self.known[id(batches)][1]


def given(prefix: Prefix | None, model: nn.Module, number: int) -> Any:
    """What is kept of one batch, if anything is."""
    return nullcontext() if prefix is None else prefix.given(model, number)


def resumes(whole: nn.Module, block: AttentionBlock, batch: Batch) -> bool:
    """Whether the whole model puts out the same with a prefix, tried on two samples."""
    batch = part_of(batch, range(min(SAMPLES, size_of(batch))))
    prefix = Prefix(whole, block, [batch])
    if not prefix.outputs[0]:
        return False
    with torch.no_grad():
        wanted = tensors_in(called(whole, batch))
        try:
            with prefix.given(whole, 0):
                found = tensors_in(called(whole, batch))
        except Exception:  # of any kind: the model is not one that can
            return False
    return len(wanted) == len(found) and all(map(_alike, wanted, found))


def _alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or not one.is_floating_point() or not one.numel():
        return one.shape == other.shape
    return float((one - other).abs().max()) <= ROUNDING * float(one.abs().max())


def _finished(whole: nn.Module, block: AttentionBlock, batch: Batch) -> dict[str, Any]:
    """By name, what the outermost modules put out that finish before the layer; a pass that ends there."""
    names = {module: name for name, module in whole.named_modules()}
    outputs: dict[str, Any] = {}
    versions: dict[str, list[int]] = {}
    calls: Counter[nn.Module] = Counter()

    def note(module: nn.Module, _: Any, output: Any) -> None:
        calls[module] += 1
        name = names[module]
        outputs.pop(name, None)
        if calls[module] == 1 and _is_plain(output):
            for within in [each for each in outputs if each.startswith(f"{name}.")]:
                del outputs[within]
            outputs[name], versions[name] = output, [each._version for each in tensors_in(output)]

    def stop(*_: Any) -> None:
        raise _Begun

    parts = {block.attention, *block.projections, block.output}
    hooks = [module.register_forward_hook(note) for module in names if module not in parts]
    hooks += [module.register_forward_pre_hook(stop) for module in parts]
    try:
        with torch.no_grad():
            called(whole, batch)
    except _Begun:
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return {
        name: output
        for name, output in outputs.items()
        if name and [each._version for each in tensors_in(output)] == versions[name]
    }


def _is_plain(output: Any) -> bool:
    """A tensor, or a tuple of tensors and None. What holds more may be changed by whoever gets it."""
    parts = output if isinstance(output, tuple) else (output,)
    return all(each is None or isinstance(each, Tensor) for each in parts)
