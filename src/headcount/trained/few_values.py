"""Values that heads share where each has a key of its own.

Attention modules take as many values as keys. So the map that makes values makes few, and a hook on it
repeats each of them for all keys that go with it. What the map costs falls; values that are kept for later
tokens are kept as they are repeated.
"""

import torch
from torch import Tensor, nn

TIMES, NUMBERS = "value_repeats", "value_numbers"


def repeats_of(linear: nn.Module) -> int:
    """Keys that go with each value.

    >>> repeats_of(nn.Linear(2, 2))
    1
    """
    return int(getattr(linear, TIMES, 1))


def set_repeats(linear: nn.Module, times: int, *, heads: int, head_dim: int) -> None:
    """Have the last `heads` heads that a map makes repeated so many times."""
    if times == 1 == repeats_of(linear):
        return
    setattr(linear, TIMES, times)
    setattr(linear, NUMBERS, (heads, head_dim))
    if repeated not in linear._forward_hooks.values():
        linear.register_forward_hook(repeated)


def repeated(linear: nn.Module, _: object, made: Tensor) -> Tensor:
    """What the map makes before its values, and each value as often as it takes."""
    heads, head_dim = getattr(linear, NUMBERS)
    before, values = made.split([made.shape[-1] - heads * head_dim, heads * head_dim], dim=-1)
    often = values.unflatten(-1, (heads, head_dim)).repeat_interleave(repeats_of(linear), dim=-2)
    return torch.cat([before, often.flatten(-2)], dim=-1)
