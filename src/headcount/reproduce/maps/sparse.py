"""Sparse attention: what do windows, strides and global tokens leave of what tokens gather?

The class token sees everything, a token those at most w places away, and with a stride also those that are a
multiple of it away. A coordinate must then be passed on for r layers until every token has it: r is the
smallest power of the matrix of what tokens see that has no zeros, ceil((T − 1) / w) for a window alone. The
rivals: L·h, if only the reader counts; L·h + h·floor((L − 1) / r), if what reaches every token counts too;
(2L − 1)·h as without a window.
"""

from typing import Any

from headcount.reproduce.maps.cell import WIDTH, Cell, at_the_limit, longer, maxima, named, wider
from headcount.reproduce.maps.depth import CONJECTURE, GATHERING, READING, rivals
from headcount.reproduce.maps.item import map_item
from headcount.reproduce.maps.judging import Law
from headcount.reproduce.recipe import Recipe
from headcount.theory.capacity import capacity

LENGTH = 9
WINDOWS = (1, 2, 4, 8)  # in a sequence of 9, 8 is everything
STRIDE = 3
REACH = "L·h + what reaches all"


def windowed(layers: int, heads: int, dimension: int, window: int, **others: int) -> Cell:
    """Heads that see this far, read in every layer; `others` are a stride or global tokens."""
    sight: dict[str, Any] = {"window": window, **others}
    reaching = capacity(layers=layers, heads=heads, head_dim=WIDTH // heads, length=LENGTH, **sight).trained
    family = ", ".join((f"window {window}", *(f"{name} {value}" for name, value in others.items())))
    laws = dict(rivals(layers, heads))
    return Cell(
        family.replace("global_tokens 1", "1 global"),
        maxima(dimension),
        LENGTH,
        layers,
        heads,
        WIDTH // heads,
        options=(*READING["every"], *{"global_tokens": 0, **sight}.items()),
        predicted=((CONJECTURE, laws[CONJECTURE]), (REACH, reaching), (GATHERING, laws[GATHERING])),
    )


def cells(recipe: Recipe) -> dict[str, Cell]:
    """Two and three layers; with a quick recipe two layers and two windows."""
    if recipe.quick:
        return named([windowed(2, 1, dimension, window) for window in (2, 8) for dimension in (2, 3, 4)])
    sights = [{"window": window} for window in WINDOWS]
    sights += [{"window": 2, "stride": STRIDE}, {"window": 1, "global_tokens": 1}]
    found = [
        windowed(layers, 1, dimension, **sight)
        for sight in sights
        for layers in (2, 3)
        for dimension in range(layers, 2 * layers + 1)
    ]
    found += [
        windowed(3, 2, dimension, **sight)
        for sight in ({"window": 4}, {"window": 2, "stride": STRIDE})
        for dimension in range(6, 10)
    ]
    frontier = at_the_limit(found, REACH)
    return named([*found, *longer(frontier), *wider(frontier)])


FAMILIES = (
    *(f"window {window}" for window in WINDOWS),
    f"window 2, stride {STRIDE}",
    "window 1, 1 global",
)
LAWS = (Law("6. sparse attention: what reaches every token counts", REACH, FAMILIES),)

ITEM = map_item(
    "sparse",
    "Sparse attention: what do windows and strides leave of what tokens gather?",
    "Sums of D maxima over 9 tokens that see few others; the class token sees all.",
    cells=cells,
    laws=LAWS,
)
