"""What Tables 2 to 5 have in common: heads × length, the paper's numbers, and the claims about them."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, falls, grows_with_length, no_worse, within
from headcount.reproduce.item import Item
from headcount.reproduce.paper import Published
from headcount.reproduce.recipe import Recipe
from headcount.reproduce.summary import summarise
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice


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
            falls(table, below=enough - 1, at=enough, factor=fold),
            *(
                no_worse(table, heads=is_enough, factor=factor, column=column, where=f"for h ≥ {enough}")
                for column in ("ratio", "validation_ratio", "selected_ratio")
            ),
            *grows_with_length(frame, below=enough),
            within(table, heads=lambda h: h < enough, factor=5, where=f"for h < {enough}"),
        ]

    def is_enough(count: int) -> bool:
        return count >= enough

    return Item(
        name,
        title,
        about,
        grids=grids,
        panels=panels,
        judge=judge,
        paper=published.errors,
        polished=is_enough,
    )
