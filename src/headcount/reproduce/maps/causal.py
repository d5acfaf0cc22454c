"""Causal attention read at the last token, as in GPT: which D do L layers of h heads learn?

A token knows only what stands before it, so what it gathered is not the whole sequence's. The rivals: L·h,
if that is of no use; (2L − 1)·h, if it is as good as a whole.
"""

from typing import Any

from headcount.reproduce.maps.cell import LENGTH, WIDTH, Cell, at_the_limit, longer, maxima, named, wider
from headcount.reproduce.maps.depth import CONJECTURE, RESIDUAL, rivals
from headcount.reproduce.maps.item import map_item
from headcount.reproduce.maps.judging import Law
from headcount.reproduce.recipe import Recipe

DECODER = (("causal", True), ("reader", "last token"), *RESIDUAL)
SHAPES = ((1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2))
PLACED = (("positions", "one_hot"),)


def decoder_cells(
    shapes: tuple[tuple[int, int], ...], family: str, options: tuple[tuple[str, str], ...] = (), **task: Any
) -> list[Cell]:
    """From the lowest rival − 1 to the highest + 1, and D = h + 1 for one layer."""
    cells = []
    for layers, heads in shapes:
        low, high = (bound for _, bound in rivals(layers, heads))
        cells += [
            Cell(
                family,
                maxima(dimension, **task),
                LENGTH,
                layers,
                heads,
                WIDTH // heads,
                options=(*DECODER, *options),
                predicted=rivals(layers, heads),
            )
            for dimension in range(max(1, low - 1), high + 2)
            if dimension <= 8
        ]
    return cells


def cells(recipe: Recipe) -> dict[str, Cell]:
    """All of them; with a quick recipe, one and two layers of one head."""
    if recipe.quick:
        return named(decoder_cells(((1, 1), (2, 1)), "decoder"))
    found = [
        *decoder_cells(SHAPES, "decoder"),
        *decoder_cells(((2, 1), (2, 2)), "decoder, positions", PLACED),
        *decoder_cells(((2, 1),), "decoder, prefixes", PLACED, positions="first half"),
    ]
    frontier = at_the_limit(found, CONJECTURE)
    return named([*found, *longer(frontier), *wider(frontier)])


LAWS = (
    Law("5. decoder: L·h", CONJECTURE, ("decoder",)),
    Law("5. decoder with positions: L·h", CONJECTURE, ("decoder, positions",)),
    Law("5. decoder with positions, S_i the first half: L·h", CONJECTURE, ("decoder, prefixes",)),
)

ITEM = map_item(
    "causal",
    "Causal attention: which D do L layers of h heads learn, read at the last token?",
    "Sums of D maxima, tokens that see what stands before them.",
    cells=cells,
    laws=LAWS,
)
