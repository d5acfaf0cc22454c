"""The weights of a linear map, whichever way round its module stores them."""

from typing import TypeGuard

import torch
from torch import Tensor, nn

from headcount.errors import InvalidInput


def is_linear(module: object) -> TypeGuard[nn.Module]:
    """Whether a module is x W + b: `nn.Linear`, or the transposed one of GPT-2.

    >>> is_linear(nn.Linear(2, 3)), is_linear(nn.ReLU())
    (True, False)
    """
    return isinstance(module, nn.Linear) or (isinstance(module, nn.Module) and is_transposed(module))


def is_transposed(module: nn.Module) -> bool:
    """Whether a map stores its weight as [input, output]."""
    # transformers' Conv1D by what it is, so that transformers is not imported for models without it.
    weight = getattr(module, "weight", None)
    sizes = getattr(module, "nx", None), getattr(module, "nf", None)
    return isinstance(weight, Tensor) and weight.dim() == 2 and tuple(weight.shape) == sizes


def weight_of(module: nn.Module) -> Tensor:
    """The weight with one row for each output: [output, input].

    >>> tuple(weight_of(nn.Linear(2, 3)).shape)
    (3, 2)
    """
    weight: Tensor = module.weight.detach()
    return weight.T if is_transposed(module) else weight


def bias_of(module: nn.Module) -> Tensor | None:
    """The bias, where there is one."""
    return None if module.bias is None else module.bias.detach()


def set_linear(module: nn.Module, weight: Tensor, bias: Tensor | None) -> None:
    """Give the map another weight [output, input] and bias, of any size, in the type and place of its own."""
    outputs, inputs = weight.shape
    like = module.weight
    if is_transposed(module):
        weight = weight.T
        module.nf, module.nx = outputs, inputs
    else:
        module.out_features, module.in_features = outputs, inputs
    module.weight = _parameter(weight, like)
    module.bias = None if bias is None else _parameter(bias, like)


def _parameter(values: Tensor, like: Tensor) -> nn.Parameter:
    moved = values.detach().to(device=like.device, dtype=like.dtype, copy=True).contiguous()
    return nn.Parameter(moved, requires_grad=like.requires_grad)


def take(values: Tensor, places: list[int], *, dim: int) -> Tensor:
    """The entries at some places along an axis."""
    return values.index_select(dim, torch.tensor(places, device=values.device))


def shares_weights(name: str, other: str) -> InvalidInput:
    """The error for an attention module with the weights of another."""
    return InvalidInput(
        f"{name}: expected weights of its own, got those of {other}: what one layer needs is undefined "
        "apart from what the other does"
    )
