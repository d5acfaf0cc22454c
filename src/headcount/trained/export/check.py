"""What a model puts out, under names, and how far two such outputs are apart."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headcount.trained.export.inputs import Inputs

PREFIX, ONE = "output.", "output"
TOLERANCE = 1e-4
HALF_TOLERANCE = 2e-2  # where a model computes in half precision
CHECK = "check.safetensors"


def plain(found: Any) -> Any:
    """Outputs without the types of their library: a tensor, or a dict of named tensors.

    >>> sorted(plain((torch.zeros(1), torch.ones(1))))
    ['0', '1']
    """
    if isinstance(found, Tensor):
        return found
    if isinstance(found, Mapping):
        return {str(name): each for name, each in found.items() if isinstance(each, Tensor)}
    parts = enumerate(found) if isinstance(found, tuple | list) else ()
    return {str(place): each for place, each in parts if isinstance(each, Tensor)}


def outputs_of(model: nn.Module, inputs: Inputs) -> dict[str, Tensor]:
    """What a model makes of inputs, by the names that a file has for it."""
    inputs = inputs.on(model)
    with torch.no_grad():
        found = plain(model(*inputs.positional, **inputs.named))
    tensors = {ONE: found} if isinstance(found, Tensor) else {f"{PREFIX}{n}": t for n, t in found.items()}
    return {name: each.detach().cpu().contiguous() for name, each in tensors.items()}


def difference(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """The largest one between outputs of the same name, in units of the largest output beyond 1.

    >>> difference({"output": torch.zeros(2)}, {"output": torch.tensor([0.0, 0.5])})
    0.5
    """
    if not ours or ours.keys() != theirs.keys():
        return float("inf")
    largest = 0.0
    for name, own in ours.items():
        other = theirs[name]
        if own.shape != other.shape:
            return float("inf")
        if own.numel():
            own, other = own.double(), other.double()
            scale = max(1.0, float(own.nan_to_num().abs().max()))
            apart = (own.nan_to_num() - other.nan_to_num()).abs().max() / scale
            same_nan = torch.equal(own.isnan(), other.isnan())
            largest = max(largest, float(apart) if same_nan else float("inf"))
    return largest


def tolerance_of(outputs: Mapping[str, Tensor]) -> float:
    """How far the outputs of an equal model may be off."""
    half = any(each.dtype in (torch.float16, torch.bfloat16) for each in outputs.values())
    return HALF_TOLERANCE if half else TOLERANCE
