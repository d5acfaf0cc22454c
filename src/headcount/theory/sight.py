"""How far tokens hear of each other under sparse attention."""

from functools import cache

import numpy as np

from headcount.models.architecture import Architecture
from headcount.models.positions import visible


@cache
def relays(
    length: int,
    *,
    most: int,
    window: int | None = None,
    stride: int | None = None,
    global_tokens: int = 0,
) -> int | None:
    """After how many layers, of `most`, every token has heard of every other; None: after none of them.

    The options are those of `Architecture`. Whom a token has heard of is one integer with a bit for every
    token; a layer adds whom those have heard of that the token sees. Either these are few, or the layers are.

    >>> relays(9, most=8, window=1), relays(9, most=8, window=2, stride=3), relays(9, most=7, window=1)
    (8, 2, None)
    """
    sight = Architecture(
        token_dim=1, heads=1, head_dim=1, window=window, stride=stride, global_tokens=global_tokens
    )
    seen = visible(length, sight)
    if seen is None:
        return 1
    everyone = (1 << length) - 1
    heard = [int.from_bytes(np.packbits(row).tobytes()) >> (-length % 8) for row in seen]
    sees = [np.flatnonzero(row).tolist() for row in seen]
    layers = 1
    while min(heard) < everyone and layers < most:
        before, layers = heard, layers + 1
        heard = [_united(before, others, everyone) for others in sees]
        if heard == before:
            return None
    return layers if min(heard) == everyone else None


def _united(heard: list[int], others: list[int], everyone: int) -> int:
    """Whom any of these has heard of."""
    united = 0
    for other in others:
        united |= heard[other]
        if united == everyone:
            break
    return united
