"""Which tokens a token can attend to: all, those before it, those nearby, a few everywhere."""

import numpy as np
from jaxtyping import Bool

from headcount.models.architecture import Architecture


def visible(length: int, architecture: Architecture) -> Bool[np.ndarray, "reader token"] | None:
    """Row t marks the tokens that token t can attend to; None where that is every token.

    A token sees itself and those at most `window` places away; with a `stride` also those that are a
    multiple of it away. The first `global_tokens` tokens see all tokens and all see them. `causal` hides what
    comes later from every token. The class token sees everything and is not part of this table.

    >>> from headcount.models.architecture import Architecture
    >>> shape = Architecture(token_dim=1, heads=1, head_dim=1, causal=True, window=1, global_tokens=1)
    >>> visible(4, shape).astype(int)
    array([[1, 0, 0, 0],
           [1, 1, 0, 0],
           [1, 1, 1, 0],
           [1, 0, 1, 1]])
    """
    if not architecture.sparse:
        return None
    places = np.arange(length)
    ahead = places - places[:, None]
    seen = np.ones((length, length), dtype=bool)
    if architecture.window is not None or architecture.stride is not None:
        seen = np.abs(ahead) <= (architecture.window or 0)
        if architecture.stride is not None:
            seen |= ahead % architecture.stride == 0
        is_global = places < architecture.global_tokens
        seen |= is_global | is_global[:, None]
    return seen & (ahead <= 0) if architecture.causal else seen
