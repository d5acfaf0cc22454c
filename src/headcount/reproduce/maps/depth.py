"""Depth: which D do L layers of h heads learn, read in the last layer or in every one?

The rivals, written down before training: L·h, the paper's conjecture; (2L − 1)·h, if tokens gather for a
reader that reads in every layer; h² and h² + h, if places let tokens ask for different coordinates; and no
limit, with places and a feed-forward network. Trained are D from the lowest rival − 1 to the highest + 2, at
most 10.
"""

from dataclasses import replace
from typing import Any

from headcount.reproduce.maps.cell import (
    LENGTH,
    TOKEN_DIM,
    WIDER,
    WIDTH,
    Cell,
    at_the_limit,
    longer,
    maxima,
    named,
    one_layer,
    wider,
)
from headcount.reproduce.maps.item import map_item
from headcount.reproduce.maps.judging import Law
from headcount.reproduce.recipe import Recipe
from headcount.theory.capacity import capacity
from headcount.theory.shape import Reading
from headcount.trials.task_choice import TaskChoice

SHAPES = ((2, 1), (2, 2), (2, 3), (2, 4), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2))
LONG = 64
ONE_LAYER_WIDER = 12  # numbers in a head, in place of 8
PLACED_DIM = 12  # of the tokens where positions are seen: rivals there reach further
RESIDUAL = (("residual", True),)
READING = {"every": (("class_reads", "every"), *RESIDUAL), "last": RESIDUAL}
PRE_NORM = (("layer_norm", True), ("feedforward", 64))
SIGHTED = {
    "positions": (("positions", "one_hot"),),
    "feed-forward": (("feedforward", 64),),
    "positions and feed-forward": (("positions", "one_hot"), ("feedforward", 64)),
}
CONJECTURE, GATHERING, WEIGHTS = "L·h", "(2L-1)·h", "what weights exist for"
LAW_OF = {"last": CONJECTURE, "every": GATHERING}  # by where the class token reads


def rivals(layers: int, heads: int) -> tuple[tuple[str, int], ...]:
    """What the two laws grant a model that sees no positions and has no feed-forward network."""
    return ((CONJECTURE, layers * heads), (GATHERING, (2 * layers - 1) * heads))


def reach(reading: str, layers: int, heads: int) -> int:
    """The largest D by the law for this reading."""
    return dict(rivals(layers, heads))[LAW_OF[reading]]


def stacked(reading: str, layers: int, heads: int, task: TaskChoice, **changes: Any) -> Cell:
    """L layers of h heads that share a width."""
    cell = Cell(
        reading,
        task,
        LENGTH,
        layers,
        heads,
        WIDTH // heads,
        options=READING[reading],
        predicted=rivals(layers, heads),
    )
    return replace(cell, **changes)


def one_layer_cells() -> list[Cell]:
    """Law 1: h from D − 2 to D + 2."""
    return [
        one_layer(maxima(dimension), heads, length=LENGTH)
        for dimension in range(1, TOKEN_DIM + 1)
        for heads in range(max(1, dimension - 2), dimension + 3)
    ]


def one_layer_frontier_cells() -> list[Cell]:
    """Law 1 with D and D - 1 heads: with more steps, and with heads half again as large."""
    frontier = [cell for cell in one_layer_cells() if cell.dimension - cell.heads in (0, 1)]
    return [*longer(frontier), *(replace(cell, head_dim=ONE_LAYER_WIDER) for cell in frontier)]


def blind_cells(reading: str) -> list[Cell]:
    """Laws 3 and 4: from the lowest rival − 1 to the highest + 2."""
    cells = []
    for layers, heads in SHAPES:
        low, high = (bound for _, bound in rivals(layers, heads))
        dimensions = range(max(1, low - 1), min(high + 2, TOKEN_DIM) + 1)
        cells += [stacked(reading, layers, heads, maxima(dimension)) for dimension in dimensions]
    return cells


def frontier_cells(reading: str) -> list[Cell]:
    """Every blind cell at the limit of its law and one beyond it."""
    return at_the_limit(blind_cells(reading), LAW_OF[reading])


def longer_cells(reading: str) -> list[Cell]:
    """The frontier with more steps."""
    return longer(frontier_cells(reading))


def wider_cells(reading: str) -> list[Cell]:
    """The frontier with larger heads, in a stream as wide as they are together."""
    return [replace(cell, head_dim=WIDER // cell.heads) for cell in frontier_cells(reading)]


def wide_stream_cells(reading: str) -> list[Cell]:
    """The frontier with heads as before in a residual stream twice as wide: kv·n stays the same."""
    return [replace(cell, residual_width=2 * WIDTH) for cell in frontier_cells(reading) if cell.layers == 2]


def long_cells(reading: str) -> list[Cell]:
    """The frontier at another length."""
    return [replace(cell, length=LONG) for cell in frontier_cells(reading)]


def normed_cells() -> list[Cell]:
    """Pre-norm layers with a feed-forward network, as people build them."""
    return [
        stacked("every", 2, heads, maxima(dimension), family="pre-norm", options=READING["every"] + PRE_NORM)
        for heads, dimensions in ((1, range(2, 6)), (2, range(5, 9)))
        for dimension in dimensions
    ]


def other_task_cells(reading: str) -> list[Cell]:
    """Bowls, and a product in place of the sum."""
    tasks = [TaskChoice.of(name, token_dim=2) for name in ("bowls", "bowls_product")]
    top = reach(reading, 2, 1)
    return [
        stacked(reading, 2, 1, task.at(dimension), family=f"{reading}, {task.name}")
        for task in tasks
        for dimension in (top, top + 1)
    ]


def sighted_cells() -> list[Cell]:
    """Law 8: positions alone, a feed-forward network alone, both; two layers."""
    cells = []
    shapes: tuple[tuple[Reading, int, range], ...] = (
        ("last", 1, range(2, 5)),
        ("every", 1, range(3, 6)),
        ("last", 3, range(6, 11)),
        ("every", 3, range(9, PLACED_DIM + 1)),
    )
    for sight, options in SIGHTED.items():
        for reading, heads, dimensions in shapes:
            cells += [
                stacked(
                    reading,
                    2,
                    heads,
                    maxima(dimension, PLACED_DIM),
                    family=f"{reading}, {sight}",
                    options=READING[reading] + options,
                )
                for dimension in dimensions
                if heads == 1 or "positions" in dict(options)
            ]
    return list(map(with_weights, cells))


def with_weights(cell: Cell) -> Cell:
    """With the D that weights exist for in a stream of its width beside the rivals."""
    options = dict(cell.options)
    exist = capacity(
        layers=cell.layers,
        heads=cell.heads,
        head_dim=cell.head_dim,
        reading="every" if "class_reads" in options else "last",
        positions="positions" in options,
        feedforward="feedforward" in options,
        width=cell.width,
    ).constructed
    return replace(cell, predicted=(*rivals(cell.layers, cell.heads), (WEIGHTS, exist)))


def further_frontier_cells() -> list[Cell]:
    """Of pre-norm, of other tasks and of what sees more: the limit with more steps, and wider.

    What sees more is asked at the limit without sight, and at what weights exist for.
    """
    cells = sighted_cells()
    others = {
        GATHERING: [*normed_cells(), *other_task_cells("every")],
        CONJECTURE: other_task_cells("last"),
    }
    frontier = [cell for rival, found in others.items() for cell in at_the_limit(found, rival)]
    sighted = [
        cell
        for rival in (CONJECTURE, GATHERING, WEIGHTS)
        for cell in at_the_limit(cells, rival)
        if rival in (LAW_OF[cell.family.partition(",")[0]], WEIGHTS)
    ]
    return [*longer([*frontier, *sighted]), *wider(frontier), *map(with_weights, wider(sighted))]


def cells(recipe: Recipe) -> dict[str, Cell]:
    """All of them, or with a quick recipe two layers of one head."""
    if recipe.quick:
        return named(
            [
                replace(cell, length=8)
                for reading in READING
                for cell in blind_cells(reading)
                if (cell.layers, cell.heads) == (2, 1)
            ]
        )
    both = [
        part(reading)
        for part in (
            blind_cells,
            longer_cells,
            wider_cells,
            wide_stream_cells,
            long_cells,
            other_task_cells,
        )
        for reading in READING
    ]
    return named(
        [
            cell
            for part in (
                one_layer_cells(),
                one_layer_frontier_cells(),
                *both,
                normed_cells(),
                sighted_cells(),
                further_frontier_cells(),
            )
            for cell in part
        ]
    )


def _sighted(*readings: str) -> tuple[str, ...]:
    return tuple(f"{reading}, {sight}" for reading in readings for sight in SIGHTED)


LAWS = (
    Law("1. one layer: h", "h", ("one layer",)),
    Law("3. read in the last layer: L·h", CONJECTURE, ("last", "last, bowls", "last, bowls_product")),
    Law(
        "4. read in every layer: (2L-1)·h",
        GATHERING,
        ("every", "every, bowls", "every, bowls_product", "pre-norm"),
    ),
    Law("8. positions or a network, read last: L·h as without", CONJECTURE, _sighted("last")),
    Law("8. positions or a network, read in every layer: (2L-1)·h as without", GATHERING, _sighted("every")),
    Law("8. positions or a network: what weights exist for", WEIGHTS, _sighted("last", "every"), drawn=False),
)

ITEM = map_item(
    "depth",
    "Depth: which D do L layers of h heads learn?",
    "Sums of D maxima, members of two to four layers, judged against one layer of D and of D - 1 heads.",
    cells=cells,
    laws=LAWS,
)
