"""One colour per number of heads: amber to red below D, sky to indigo from D on.

Each ramp darkens with h, so it reads as ordered; warm against cool is the one contrast that every
common form of colour blindness keeps. All tones are of middle lightness: at least 3 : 1 against a
white and a near-black page alike, so one chart serves both.
"""

from collections.abc import Sequence

import numpy as np

Colour = tuple[int, int, int]

BELOW: tuple[Colour, ...] = ((202, 128, 0), (205, 84, 20), (190, 38, 60))
FROM: tuple[Colour, ...] = ((30, 150, 200), (45, 110, 225), (115, 80, 215))


def head_colours(heads: Sequence[int], *, dimension: int | None) -> list[str]:
    """The colour of every h, in order; without a known D all of them are cool.

    >>> head_colours([1, 2], dimension=2)
    ['#ca8000', '#1e96c8']
    """
    below = sum(dimension is not None and count < dimension for count in heads)
    return [*_ramp(BELOW, steps=below), *_ramp(FROM, steps=len(heads) - below)]


def _ramp(stops: Sequence[Colour], *, steps: int) -> list[str]:
    at = np.linspace(0, len(stops) - 1, steps)
    channels = [np.interp(at, range(len(stops)), channel) for channel in zip(*stops, strict=True)]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in np.rint(channels).astype(int).T]
