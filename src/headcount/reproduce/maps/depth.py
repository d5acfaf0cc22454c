"""Depth: which D do L layers of h heads learn, read in the last layer or in every one?

The rivals, written down before training: L·h, the paper's conjecture; (2L − 1)·h, if tokens gather for a
reader that reads in every layer; h² and h² + h, if places let tokens ask for different things; and no limit,
with places and a feed-forward network (two layers). Trained are D from the lowest rival − 1 to the highest + 1.
"""

from headcount.reproduce.maps.cell import TOKEN_DIM, WIDTH, Cell, maxima, one_layer
from headcount.trials.task_choice import TaskChoice

SHAPES = ((2, 1), (2, 2), (2, 3), (2, 4), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2))
LENGTH, LONGER = 16, 64
PLACED_DIM = 12  # tokens of the map with positions, which reaches further
WIDER = 36
BLIND = (("residual", True),)
READING = {"every": (("class_reads", "every"), *BLIND), "last": BLIND}


def rivals(layers: int, heads: int) -> tuple[tuple[str, int], ...]:
    """Of a model that sees no positions and has no feed-forward network."""
    return (("L·h", layers * heads), ("(2L-1)·h", (2 * layers - 1) * heads))


def law_of(reading: str, layers: int, heads: int) -> int:
    """The D that the law for this reading grants."""
    return layers * heads if reading == "last" else (2 * layers - 1) * heads


def blind(reading: str, layers: int, heads: int, dimension: int, **changes: object) -> Cell:
    """A member that sees no positions and has no feed-forward network."""
    width = changes.pop("width", WIDTH)
    assert isinstance(width, int)
    length = changes.pop("length", LENGTH)
    assert isinstance(length, int)
    task = changes.pop("task", None) or maxima(dimension)
    assert isinstance(task, TaskChoice)
    cell = Cell(
        reading,
        task,
        length,
        layers,
        heads,
        width // heads,
        options=READING[reading],
        predicted=rivals(layers, heads),
    )
    return cell if not changes else _changed(cell, **changes)


def _changed(cell: Cell, **changes: object) -> Cell:
    from dataclasses import replace

    return replace(cell, **changes)  # type: ignore[arg-type]


def frontier(reading: str) -> list[tuple[int, int, int]]:
    """(L, h, D) at the capacity and one beyond it."""
    return [
        (layers, heads, dimension)
        for layers, heads in SHAPES
        for dimension in (law_of(reading, layers, heads), law_of(reading, layers, heads) + 1)
        if dimension <= TOKEN_DIM
    ]


def one_layer_cells() -> list[Cell]:
    """Law 1: h from D − 2 to D + 2."""
    return [
        one_layer(maxima(dimension), heads, length=LENGTH)
        for dimension in range(1, TOKEN_DIM + 1)
        for heads in range(max(1, dimension - 2), dimension + 3)
    ]


def blind_cells(reading: str) -> list[Cell]:
    """Laws 3 and 4: from the lowest rival − 1 to the highest + 1."""
    cells = []
    for layers, heads in SHAPES:
        low, high = (bound for _, bound in rivals(layers, heads))
        dimensions = range(max(1, low - 1), min(high + 1, TOKEN_DIM) + 1)
        cells += [blind(reading, layers, heads, dimension) for dimension in dimensions]
    return cells
