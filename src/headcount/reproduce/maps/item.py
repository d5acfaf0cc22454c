"""A map as an item of the reproduction: cells and their references are trained, then every law is judged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pandas as pd

from headcount.report.map_panel import MapPanel
from headcount.reproduce.claims import Verdict
from headcount.reproduce.item import Item
from headcount.reproduce.maps.cell import Cell, references
from headcount.reproduce.maps.judging import Law, agreement, judged, verdicts
from headcount.reproduce.recipe import FULL, QUICK, Recipe

SEEDS = 4


@dataclass(frozen=True)
class MapItem(Item):
    """An item whose grids are cells; `cells` names those of a recipe, without their references.

    `table` judges each of them from its rows.
    """

    cells: Callable[[Recipe], dict[str, Cell]] = field(default=lambda recipe: {})
    table: Callable[[pd.DataFrame], pd.DataFrame] = field(default=lambda frame: frame)
    seeds: int = SEEDS


def map_item(
    name: str,
    title: str,
    about: str,
    *,
    cells: Callable[[Recipe], dict[str, Cell]],
    laws: Sequence[Law],
) -> MapItem:
    """The item of a map."""

    def table(frame: pd.DataFrame) -> pd.DataFrame:
        known = {**cells(QUICK), **cells(FULL)}
        return judged(frame, known.values())

    def panels(frame: pd.DataFrame) -> list[MapPanel]:
        found = table(frame)
        return [
            MapPanel(law.title, part, law.rival, agreement(part))
            for law in laws
            if law.drawn and len(found) and len(part := found[found["family"].isin(law.families)])
        ]

    def judge(frame: pd.DataFrame) -> list[Verdict]:
        return verdicts(table(frame), laws)

    def with_references(recipe: Recipe) -> dict[str, Cell]:
        chosen = cells(recipe)
        return {**references(chosen), **chosen}

    return MapItem(
        name,
        title,
        about,
        grids=lambda recipe: {name: cell.grid(recipe) for name, cell in with_references(recipe).items()},
        panels=panels,
        judge=judge,
        cells=cells,
        table=table,
    )
