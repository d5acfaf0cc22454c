"""Figure 1: the error against the heads, and against the hidden size."""

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce import figure4, table2
from headcount.reproduce.claims import Verdict, falls, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe
from headcount.trials.grid import Grid

D = 4
SHOWN = 2  # heads of panel b


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Those of Table 2 and of Figure 4."""
    hidden = figure4.grids(recipe)
    return {"heads": table2.ITEM.grids(recipe)[""], "hidden": hidden[figure4.name(SHOWN)]}


def panels(frame: pd.DataFrame) -> list[Panel]:
    """One panel each."""
    heads, hidden = (frame[frame["variant"] == variant] for variant in ("heads", "hidden"))
    return [
        Panel("1a: error against heads", summarise(heads), across="heads", lines="length", enough=D),
        figure4.panel(hidden, SHOWN, title=f"1b: error against hidden size, h = {SHOWN}"),
    ]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """The fall at D, and the power law below it."""
    heads, hidden = (frame[frame["variant"] == variant] for variant in ("heads", "hidden"))
    return [falls(heads, below=D - 1, at=D, factor=100), *figure4.power_laws(hidden, SHOWN)]


ITEM = Item(
    "figure1",
    "Figure 1: error against heads and against hidden size",
    "The grid of Table 2 seen along the heads, and the error at two heads as the hidden layers grow.",
    grids=grids,
    panels=panels,
    judge=judge,
)
