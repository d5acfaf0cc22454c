"""Where the residual stream that an attention layer writes into comes from."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, called, part_of, size_of

SAMPLES = 2
ROUNDING = 1e-5  # of the largest entry; half-precision models add in half precision
HALF_ROUNDING = 2e-2


def first_tensor(arguments: Sequence[Any], named: dict[str, Any]) -> Tensor | None:
    """The first tensor among the arguments of a call."""
    return next((each for each in (*arguments, *named.values()) if isinstance(each, Tensor)), None)


def residual_sources(
    model: nn.Module, blocks: Sequence[AttentionBlock], batch: Batch
) -> list[nn.Module | None]:
    """Of every block, the module around it whose input x is what it is added to; None where there is none.

    Found by what happens to two samples: with w what the block writes, x + w must be what some later module
    is given. Layers that scale or normalise w first, or add more to it at once, have none.
    """
    batch = part_of(batch, range(min(SAMPLES, size_of(batch))))
    modules = dict(model.named_modules())
    names = {module: name for name, module in modules.items()}
    given: list[tuple[nn.Module, Tensor]] = []
    written: dict[nn.Module, tuple[int, Tensor]] = {}

    def note_input(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        tensor = first_tensor(arguments, named)
        if tensor is not None and tensor.is_floating_point():
            given.append((module, tensor.detach().clone()))

    def note_written(module: nn.Module, _: Any, output: Tensor) -> None:
        written[module] = len(given), output.detach().clone()

    hooks = [module.register_forward_pre_hook(note_input, with_kwargs=True) for module in modules.values()]
    hooks += [block.output.register_forward_hook(note_written) for block in blocks]
    try:
        with torch.no_grad():
            called(model, batch)
    finally:
        for hook in hooks:
            hook.remove()
    sources: list[nn.Module | None] = []
    for block in blocks:
        found = written.get(block.output)
        around = _around(names[block.output])
        sources.append(None if found is None else _source(given, *found, [modules[name] for name in around]))
    return sources


def _around(name: str) -> list[str]:
    """The paths of the modules around one, the innermost first.

    >>> _around("layer.0.dense")
    ['layer.0', 'layer', '']
    """
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(len(parts) - 1, -1, -1)]


def _source(
    given: Sequence[tuple[nn.Module, Tensor]], when: int, written: Tensor, around: Sequence[nn.Module]
) -> nn.Module | None:
    later = [tensor for _, tensor in given[when:] if tensor.shape == written.shape]
    rounding = ROUNDING if written.dtype in (torch.float32, torch.float64) else HALF_ROUNDING
    for module in around:
        inputs = [tensor for each, tensor in given[:when] if each is module]
        if len(inputs) != 1 or inputs[0].shape != written.shape:
            continue
        wanted = inputs[0] + written
        close = rounding * float(wanted.abs().max())
        if any(float((each - wanted).abs().max()) <= close for each in later):
            return module
    return None
