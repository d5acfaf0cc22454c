"""Key-value heads: how many numbers must query heads have to read from?

The rivals for one layer: h alone, if only query heads count; kv·n numbers, D of them needed; and kv·n
numbers shared by the span of the f_i, of which the dimension r may be below D. For two layers, the schedule
of `theory/schedule.py`, and what sums allow: a sum of what was gathered travels in one number.
"""

from dataclasses import replace
from math import ceil

from headcount.reproduce.maps.cell import LENGTH, WIDTH, Cell, at_the_limit, longer, maxima, named, wider
from headcount.reproduce.maps.depth import READING
from headcount.reproduce.maps.item import map_item
from headcount.reproduce.maps.judging import Law
from headcount.reproduce.recipe import Recipe
from headcount.theory.capacity import capacity, sums_in_two_layers
from headcount.theory.plan import divisors
from headcount.theory.shape import Reading
from headcount.trials.task_choice import TaskChoice

DIMENSIONS = (2, 3, 4, 6, 8)
TOKEN_DIM = 8
FEW_NUMBERS = ((2, 1, 1), (3, 1, 2))  # where numbers bind for sums too, and not heads
QUERIES, NUMBERS, SPANS = "h", "min(h, kv·n)", "h and shares of the span"
SCHEDULE, SUMS = "schedule", "schedule for sums"


def shared(task: TaskChoice, heads: int, kv_heads: int, head_dim: int, *, span: int, family: str) -> Cell:
    """One layer of query heads that share key-value heads, in a stream of one width for all.

    `span`: r, the dimension of the span of the f_i modulo constants, in general position.
    """
    dimension, group = task.dimension, heads // kv_heads
    # In general position a share of k functions spans min(k, r) dimensions, which must be n at most.
    in_a_share = group if min(group, span) <= head_dim else head_dim
    laws = {
        QUERIES: heads,
        NUMBERS: min(heads, kv_heads * head_dim),
        SPANS: min(heads, kv_heads * in_a_share),
    }
    return Cell(
        family,
        task,
        LENGTH,
        1,
        heads,
        head_dim,
        kv_heads=kv_heads,
        residual_width=max(WIDTH, dimension),
        predicted=tuple(laws.items()),
    )


def independent_cells() -> list[Cell]:
    """Independent f_i: n around ceil(D / kv), with h at D, below it and above it."""
    cells = []
    for dimension in DIMENSIONS:
        for heads in (dimension, dimension - 1, dimension + 2):
            for kv_heads in divisors(heads) if heads else ():
                enough = ceil(dimension / kv_heads)
                sizes = (enough - 1, enough, enough + 1) if heads == dimension else (enough - 1, enough)
                cells += [
                    shared(
                        maxima(dimension, TOKEN_DIM),
                        heads,
                        kv_heads,
                        size,
                        span=dimension,
                        family="independent",
                    )
                    for size in sizes
                    if size > 0 and (heads == dimension or kv_heads in (1, 2))
                ]
    return cells


def dependent_cells() -> list[Cell]:
    """Fewer dimensions than functions: max and min of one function, bowls and projections of few numbers."""
    extremes = TaskChoice.of("extremes")
    bowls = [(TaskChoice.of("bowls", token_dim=d).at(dimension), d + 1) for d, dimension in ((1, 4), (2, 6))]
    flat = [
        (TaskChoice.of("max_sum", token_dim=d, smallest_angle=25.0).at(dimension), d)
        for d, dimension in ((2, 4), (3, 6))
    ]
    cells = [shared(extremes, 2, kv, 1, span=1, family="dependent") for kv in (1, 2)]
    for task, span in (*bowls, *flat):
        for kv_heads in (1, 2):
            cells += [
                shared(task, task.dimension, kv_heads, size, span=span, family="dependent")
                for size in range(max(1, span - 1), span + 2)
            ]
    return cells


def stacked_cells() -> list[Cell]:
    """Law 7: two layers whose query heads share few numbers, around what the schedules grant."""
    cells = []
    shapes: tuple[tuple[Reading, tuple[tuple[int, int, int], ...]], ...] = (
        (
            "every",
            ((1, 1, 1), (1, 1, 2), (2, 1, 2), (2, 1, 3), (2, 1, 4), (2, 2, 1), (2, 2, 2), *FEW_NUMBERS),
        ),
        ("last", ((1, 1, 1), (1, 1, 2), (2, 1, 2), (2, 1, 3), (2, 1, 4), (2, 2, 1), *FEW_NUMBERS)),
    )
    for reading, sizes in shapes:
        for heads, kv_heads, head_dim in sizes:
            granted = capacity(
                layers=2, heads=heads, kv_heads=kv_heads, head_dim=head_dim, reading=reading
            ).constructed
            sums = sums_in_two_layers(heads, kv_heads * head_dim, reading)
            laws = (
                (SCHEDULE, granted),
                (SUMS, sums),
                ("heads alone", (3 if reading == "every" else 2) * heads),
            )
            cells += [
                Cell(
                    f"two layers, {reading}",
                    maxima(dimension, TOKEN_DIM),
                    LENGTH,
                    2,
                    heads,
                    head_dim,
                    kv_heads=kv_heads,
                    residual_width=WIDTH,
                    options=READING[reading],
                    predicted=laws,
                )
                for dimension in range(granted, max(sums, granted) + 2)
            ]
    return cells


def frontier_cells() -> list[Cell]:
    """Cells at what their law grants and one beyond it, of one layer and of two."""
    two = {law.rival: law.families for law in LAWS if law.rival in (SCHEDULE, SUMS)}
    return [
        *at_the_limit(independent_cells(), NUMBERS),
        *at_the_limit(dependent_cells(), SPANS),
        *(
            cell
            for rival, families in two.items()
            for cell in at_the_limit(stacked_cells(), rival)
            if cell.family in families
        ),
    ]


def cells(recipe: Recipe) -> dict[str, Cell]:
    """All of them; with a quick recipe, D = 3 with one key-value head and max + min."""
    if recipe.quick:
        few = [cell for cell in independent_cells() if cell.dimension == 3 and cell.heads == 3]
        return named([replace(cell, length=8) for cell in (*few, *dependent_cells()[:2])])
    frontier = frontier_cells()
    found = [*independent_cells(), *dependent_cells(), *stacked_cells()]
    return named([*found, *longer(frontier), *wider(frontier)])


LAWS = (
    Law("2. key-value numbers, independent f_i: min(h, kv·n)", NUMBERS, ("independent",)),
    Law("2. key-value numbers, dependent f_i: shares of the span", SPANS, ("dependent",)),
    Law("7. two layers, read in every layer", SCHEDULE, ("two layers, every",)),
    Law("7. two layers, read last, for sums", SUMS, ("two layers, last",)),
)

ITEM = map_item(
    "kv_heads",
    "Key-value heads: how many numbers must query heads read from?",
    "One and two layers whose query heads share key-value heads of n numbers, in a stream of one width.",
    cells=cells,
    laws=LAWS,
)
