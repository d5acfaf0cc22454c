"""Figure 3: minimum error and reversal score against heads, and where the score is misleading."""

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce import table2, table4
from headcount.reproduce.claims import Cells, Verdict, reversal_score, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe
from headcount.reproduce.table import TABLE_2, TABLE_4
from headcount.trials.grid import Grid

DIMENSIONS = {"D = 4": 4, "D = 3": 3}
PUBLISHED = {"D = 4": TABLE_2, "D = 3": TABLE_4}


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Those of Tables 2 and 4."""
    return {"D = 4": table2.ITEM.grids(recipe)[""], "D = 3": table4.ITEM.grids(recipe)[""]}


def scores(errors: Cells) -> dict[int, float]:
    """The score of every number of heads."""
    heads = sorted({count for count, _ in errors})
    lengths = sorted({length for _, length in errors})
    return {count: reversal_score(np.array([errors[count, length] for length in lengths])) for count in heads}


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against heads, a line per length."""
    return [
        Panel(
            variant,
            summarise(frame[frame["variant"] == variant], paper=PUBLISHED[variant].errors),
            across="heads",
            lines="length",
            enough=dimension,
        )
        for variant, dimension in DIMENSIONS.items()
    ]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """Where the score turns positive, on the paper's numbers and on ours."""
    verdicts = []
    for variant, dimension in DIMENSIONS.items():
        table = summarise(frame[frame["variant"] == variant])
        cells = zip(table["heads"], table["length"], strict=True)
        ours = dict(zip(cells, table["min"], strict=True))
        for whose, errors in (("the paper's numbers", PUBLISHED[variant].errors), ("our numbers", ours)):
            found = scores(errors)
            first = next((heads for heads, score in found.items() if score > 0), None)
            evidence = ", ".join(f"h = {heads}: {score:.2f}" for heads, score in found.items())
            claim = f"{variant}: the reversal score of {whose} turns positive at D"
            verdicts.append(Verdict(claim, first == dimension, evidence))
    return verdicts


ITEM = Item(
    "figure3",
    "Figure 3: the reversal score",
    "Does a longer sequence have the smaller error? The paper takes the first h where one does for D.",
    grids=grids,
    panels=panels,
    judge=judge,
)
