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

    The smallest power without zeros of the matrix of who sees whom; the options are those of `Architecture`.

    >>> relays(9, most=8, window=1), relays(9, most=8, window=2, stride=3), relays(9, most=7, window=1)
    (8, 2, None)
    """
    sight = Architecture(
        token_dim=1, heads=1, head_dim=1, window=window, stride=stride, global_tokens=global_tokens
    )
    seen = visible(length, sight)
    if seen is None:
        return 1
    sees = seen.astype(np.float32)
    heard, layers = sees, 1
    while not heard.all() and layers < most:
        heard, layers = np.sign(heard @ sees), layers + 1
    return layers if heard.all() else None
