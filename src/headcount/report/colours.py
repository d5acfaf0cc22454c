"""One colour per number of heads: amber to red below D, sky to indigo from D on.

Each ramp darkens with h, so it reads as ordered; warm against cool is the one contrast that every
common form of colour blindness keeps. All tones are of middle lightness: at least 3 : 1 against a
white and a near-black page alike, so one chart serves both.
"""

from collections.abc import Sequence

import numpy as np

Colour = tuple[int, int, int]

BELOW: tuple[Colour, ...] = ((202, 128, 0), (205, 84, 20), (190, 38, 60))
ENOUGH: tuple[Colour, ...] = ((30, 150, 200), (45, 110, 225), (115, 80, 215))


def head_colours(*, below: int, enough: int) -> list[str]:
    """The colours of so many h < D, and then of so many h >= D.

    >>> head_colours(below=1, enough=2)
    ['#ca8000', '#1e96c8', '#7350d7']
    """
    return [*_ramp(BELOW, steps=below), *_ramp(ENOUGH, steps=enough)]


def _ramp(stops: Sequence[Colour], *, steps: int) -> list[str]:
    at = np.linspace(0, len(stops) - 1, steps)
    channels = [np.interp(at, range(len(stops)), channel) for channel in zip(*stops, strict=True)]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in np.rint(channels).astype(int).T]
