"""A task inside the theorem's assumptions through the grid of Table 2: is the transition there too?"""

from dataclasses import replace

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, change_with_length, falls, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice

D = 4


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Wells in the unit square: in four dimensions a few tokens come near none. At the two larger rates."""
    faster = replace(recipe, rates=recipe.rates[-2:])
    return {"": faster.grid(TaskChoice.of("bowls", token_dim=2).at(D), heads=(1, 2, 3, 4, 5))}


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against length."""
    return [Panel("bowls, D = 4", summarise(frame), enough=D)]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """The fall at D, and the change with T: at every length, and at those where D heads learn something."""
    learnt = errors_learnt(frame)
    return [
        falls(frame, below=D - 1, at=D, factor=10),
        *change_with_length(frame, enough=D),
        *(
            change_with_length(learnt, enough=D, where="where D heads learn, ")
            if len(learnt) < len(frame)
            else ()
        ),
    ]


def errors_learnt(frame: pd.DataFrame) -> pd.DataFrame:
    """The lengths at which some seed with D heads leaves less than half of the variance."""
    best = frame[frame["heads"] == D].groupby("length")["test_error"].min()
    return frame[frame["length"].isin(best.index[best < 0.5])]


ITEM = Item(
    "bowls",
    "Inside the assumptions: bowls",
    "The synthetic task has no minimisers, so the lower bound does not apply to it. This one has.",
    grids=grids,
    panels=panels,
    judge=judge,
)
