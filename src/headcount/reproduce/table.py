"""What Tables 2 to 5 have in common: heads × length, the paper's numbers, and the claims about them.

The numbers are validation NMSE, as printed in "The Effect of Attention Head Count on Transformer
Approximation", arXiv 2510.06662.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import (
    RATIOS,
    Cells,
    Verdict,
    change_with_length,
    falls,
    no_worse,
    summarise,
    within,
)
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import LENGTHS, Recipe
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice

ABOVE = 3.0  # times the paper's number: a cell that is named as worse


@dataclass(frozen=True)
class Published:
    """A table as printed; `statistic` says what its numbers are, as far as the paper does."""

    name: str
    statistic: str
    rows: Mapping[int, tuple[float, ...]]

    @property
    def errors(self) -> Cells:
        """The error of every number of heads and length."""
        return {(h, T): error for h, row in self.rows.items() for T, error in zip(LENGTHS, row, strict=True)}


TABLE_2 = Published(
    "Table 2",
    "mean over seeds",
    {
        1: (7.01e-2, 1.09e-1, 1.10e-1, 1.14e-1, 1.45e-1),
        2: (7.31e-3, 8.41e-3, 9.42e-3, 1.31e-2, 1.47e-2),
        3: (6.94e-4, 6.40e-4, 9.09e-4, 1.31e-3, 1.58e-3),
        4: (6.10e-5, 4.36e-5, 4.80e-5, 8.75e-6, 5.23e-6),
        5: (3.35e-5, 1.10e-5, 4.91e-6, 4.19e-6, 3.99e-6),
    },
)
TABLE_3 = Published(
    "Table 3",
    "not said",
    {
        1: (1.75e-2, 1.98e-2, 2.06e-2, 2.54e-2, 3.03e-2),
        2: (7.17e-3, 7.39e-3, 7.82e-3, 8.57e-3, 1.02e-2),
        3: (2.11e-4, 2.17e-4, 2.73e-4, 3.71e-4, 4.77e-4),
        4: (1.32e-6, 5.59e-7, 3.40e-7, 3.46e-7, 5.70e-7),
        5: (2.19e-6, 4.33e-7, 3.22e-7, 2.73e-7, 2.66e-7),
    },
)
TABLE_4 = Published(
    "Table 4",
    "not said",
    {
        1: (1.38e-2, 1.63e-2, 1.84e-2, 2.17e-2, 2.31e-2),
        2: (1.09e-3, 7.08e-4, 7.24e-4, 7.76e-4, 1.11e-3),
        3: (4.18e-7, 1.72e-7, 1.17e-7, 3.58e-7, 2.11e-7),
        4: (5.56e-7, 1.22e-7, 6.89e-8, 1.85e-7, 3.48e-7),
    },
)
TABLE_5 = Published(
    "Table 5",
    "not said",
    {
        1: (2.12e-4, 1.85e-4, 2.22e-4, 3.13e-4, 4.28e-4),
        2: (7.22e-6, 2.69e-6, 3.50e-6, 3.07e-6, 3.83e-6),
        3: (8.16e-6, 1.83e-6, 1.73e-6, 3.86e-6, 3.50e-6),
        4: (3.68e-6, 1.87e-6, 2.60e-6, 4.32e-6, 5.98e-6),
        5: (6.15e-6, 3.02e-6, 3.31e-6, 3.78e-6, 5.34e-6),
    },
)


def table_item(
    name: str,
    title: str,
    about: str,
    *,
    task: TaskChoice,
    published: Published,
    enough: int,
    fold: float = 100,
    factor: float,
    heads: tuple[int, ...],
    adapt: Callable[[Recipe], Recipe] = lambda recipe: recipe,
    **axes: Any,
) -> Item:
    """A table as an item.

    - `enough`: the smallest h that is enough.
    - `fold`: how far the error should fall there; `factor`: how close our errors should be to the paper's.
    - `adapt`: turns the common recipe into that of this table; `axes`: other axes of the grid.
    """

    def grids(recipe: Recipe) -> dict[str, Grid]:
        return {"": adapt(recipe).grid(task, heads=heads, **axes)}

    def panels(frame: pd.DataFrame) -> list[Panel]:
        table = summarise(frame, paper=published.errors)
        return [
            Panel(f"{published.name}, the paper's statistic: {published.statistic}", table, enough=enough)
        ]

    def judge(frame: pd.DataFrame) -> list[Verdict]:
        table = summarise(frame, paper=published.errors)
        return [
            falls(frame, below=enough - 1, at=enough, factor=fold),
            *(
                no_worse(table, heads=is_enough, factor=factor, column=column, where=f"for h ≥ {enough}")
                for column in RATIOS
            ),
            *change_with_length(frame, enough=enough),
            no_worse(table, heads=is_few, factor=ABOVE, column="ratio", where=f"for h < {enough}"),
            within(table, heads=is_few, factor=5, where=f"for h < {enough}"),
        ]

    def is_enough(count: int) -> bool:
        return count >= enough

    def is_few(count: int) -> bool:
        return count < enough

    return Item(
        name,
        title,
        about,
        grids=grids,
        panels=panels,
        judge=judge,
        paper=published.errors,
    )
