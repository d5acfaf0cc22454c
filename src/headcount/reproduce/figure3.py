"""Figure 3: minimum error and reversal score against heads, and where the score is misleading."""

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce import table2, table3, table4, table5
from headcount.reproduce.claims import STATISTICS, Cells, Verdict, reversal_score, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe
from headcount.reproduce.table import TABLE_2, TABLE_3, TABLE_4, TABLE_5
from headcount.trials.grid import Grid

TABLES = {
    "Table 2": (table2.ITEM, TABLE_2, 4),
    "Table 3": (table3.ITEM, TABLE_3, 4),
    "Table 4": (table4.ITEM, TABLE_4, 3),
    "Table 5": (table5.ITEM, TABLE_5, 2),
}  # with the first number of heads that is enough


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Those of all tables."""
    return {name: item.grids(recipe)[""] for name, (item, _, _) in TABLES.items()}


def scores(errors: Cells) -> dict[int, float]:
    """The score of every number of heads."""
    heads = sorted({count for count, _ in errors})
    lengths = sorted({length for _, length in errors})
    return {count: reversal_score(np.array([errors[count, length] for length in lengths])) for count in heads}


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against heads, a line per length."""
    return [
        Panel(
            name,
            summarise(frame[frame["variant"] == name], paper=published.errors),
            across="heads",
            lines="length",
            enough=enough,
        )
        for name, (_, published, enough) in TABLES.items()
    ]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """Where the score turns positive, on the paper's numbers and on ours by each statistic."""
    verdicts = []
    for name, (_, published, enough) in TABLES.items():
        table = summarise(frame[frame["variant"] == name])
        cells = list(zip(table["heads"], table["length"], strict=True))
        whose = {"the paper's numbers": published.errors}
        for column, words in STATISTICS.items():
            whose[f"ours, {words}"] = dict(zip(cells, table[column], strict=True))
        for numbers, errors in whose.items():
            found = scores(errors)
            first = next((heads for heads, score in found.items() if score > 0), None)
            evidence = ", ".join(f"h = {heads}: {score:.2f}" for heads, score in found.items())
            claim = f"{name}, {numbers}: the reversal score turns positive at h = {enough}"
            verdicts.append(Verdict(claim, first == enough, evidence))
    return verdicts


ITEM = Item(
    "figure3",
    "Figure 3: the reversal score",
    "Does a longer sequence have the smaller error? The paper takes the first h where one does for D.",
    grids=grids,
    panels=panels,
    judge=judge,
)
