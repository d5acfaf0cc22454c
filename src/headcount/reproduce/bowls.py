"""A task inside the theorem's assumptions through the grid of Table 2: is the transition there too?"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import (
    Group,
    Verdict,
    change_with_length,
    errors_by,
    falls,
    log_slope,
    summarise,
)
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe
from headcount.results.intervals import combined
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
        *slower_growth(learnt),
    ]


def slower_growth(frame: pd.DataFrame) -> Iterator[Verdict]:
    """Whether the error grows more slowly with D heads or more than with D − 1: over seeds, and by minima.

    The minima are one number a length, and their slope has an interval by how far they lie from a line.
    """
    below, lengths = _groups(frame, D - 1), frame["length"].nunique()
    for heads in sorted(int(count) for count in frame["heads"].unique() if count >= D):
        groups = _groups(frame, heads)
        for name, of in (
            ("over seeds", np.asarray),
            ("by minima", lambda errors: errors.min(keepdims=True)),
        ):
            claim = (
                f"where D heads learn, {name}, the error grows more slowly with T at h = {heads} "
                f"than at h = {D - 1}"
            )
            if lengths < 3 or min(map(len, (*below.values(), *groups.values()))) < 2:
                yield Verdict(claim, None, "needs three lengths and two seeds")
                continue
            one, other = (
                log_slope(np.array(list(group), float), [of(errors) for errors in group.values()])
                for group in (groups, below)
            )
            apart = combined((one, other), (1.0, -1.0))
            holds = apart.sign < 0 if apart.sign else None
            yield Verdict(claim, holds, f"slopes {one} and {other}, apart by {apart}")


def _groups(frame: pd.DataFrame, heads: int) -> dict[int, Group]:
    return errors_by(frame[frame["heads"] == heads], "length")


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
