"""Sparse attention: what do windows and global tokens leave of what tokens gather?

The class token sees everything, tokens see those at most w places away. A coordinate must then be passed on
for ceil((T − 1) / w) layers until every token has it. The rivals: L·h, if only the reader counts;
L·h + h·floor((L − 1) / ceil((T − 1) / w)), if what reaches every token counts too; (2L − 1)·h as without a
window.
"""

from headcount.reproduce.maps.cell import WIDTH, Cell, maxima, named
from headcount.reproduce.maps.depth import CONJECTURE, GATHERING, READING
from headcount.reproduce.maps.item import map_item
from headcount.reproduce.maps.judging import Law
from headcount.reproduce.recipe import Recipe

LENGTH = 9
WINDOWS = (1, 2, 4, 8)  # in a sequence of 9, 8 is everything
REACH = "L·h + what reaches all"


def windowed(layers: int, window: int, dimension: int, *, global_tokens: int = 0) -> Cell:
    """One head a layer, read in every layer."""
    relays = 2 if global_tokens else -(-(LENGTH - 1) // window)
    reaching = layers + (layers - 1) // relays
    family = f"window {window}" + (f", {global_tokens} global" if global_tokens else "")
    options = (*READING["every"], ("window", window), ("global_tokens", global_tokens))
    laws = ((CONJECTURE, layers), (REACH, reaching), (GATHERING, 2 * layers - 1))
    return Cell(family, maxima(dimension), LENGTH, layers, 1, WIDTH, options=options, predicted=laws)


def cells(recipe: Recipe) -> dict[str, Cell]:
    """Two and three layers; with a quick recipe two layers and two windows."""
    if recipe.quick:
        return named([windowed(2, window, dimension) for window in (2, 8) for dimension in (2, 3, 4)])
    found = [
        windowed(layers, window, dimension)
        for layers in (2, 3)
        for window in WINDOWS
        for dimension in range(layers, 2 * layers + 1)
    ]
    found += [
        windowed(layers, 1, dimension, global_tokens=1)
        for layers in (2, 3)
        for dimension in range(layers, 2 * layers + 1)
    ]
    return named(found)


FAMILIES = (*(f"window {window}" for window in WINDOWS), "window 1, 1 global")
LAWS = (Law("6. windows: what reaches every token counts", REACH, FAMILIES),)

ITEM = map_item(
    "sparse",
    "Sparse attention: what do windows leave of what tokens gather?",
    "Sums of D maxima over 9 tokens that see w places to each side; the class token sees all.",
    cells=cells,
    laws=LAWS,
)
