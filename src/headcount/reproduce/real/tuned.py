"""Members at the rate that suits their width: of all tried, the one with the fewest wrong over all its cells.

Chosen once for a width and a length, by every head count and seed there, a rate is hardly chosen for what
chance did to one cell, and the seeds of a cell stay independent: tests/reproduce/real/test_tuned.py measures
the coverage. An interval is about the mean at the chosen rate.
"""

import json
from typing import Any

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Group

PLACE = ["width", "length"]  # that share a rate
ALL_WRONG = 1.0  # the share of wrong answers of a member that diverged


def with_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with what else was measured as columns of their own."""
    scores = pd.DataFrame([json.loads(text) for text in frame["scores"]], index=frame.index)
    return frame.join(scores[[name for name in scores if name not in frame]])


def at_best_rates(frame: pd.DataFrame, column: str = "train_error") -> pd.DataFrame:
    """The rows at the rate of their width and length; `judged` is their `column`, 1 where they diverged."""
    lost = frame["status"] == "diverged"
    frame = frame.assign(judged=frame[column].where(~lost, ALL_WRONG).fillna(ALL_WRONG))
    means = frame.groupby([*PLACE, "learning_rate"], as_index=False)["judged"].mean()
    best = means.loc[means.groupby(PLACE)["judged"].idxmin(), [*PLACE, "learning_rate"]]
    return frame.merge(best, on=[*PLACE, "learning_rate"])


def tuned_cells(frame: pd.DataFrame, *by: str, column: str = "train_error") -> dict[Any, Group]:
    """The values of every cell over its seeds, by its place or places along these axes."""
    chosen, found = at_best_rates(frame, column), dict[Any, Group]()
    for place in sorted(set(zip(*(chosen[axis].tolist() for axis in by), strict=True))):
        here = np.logical_and.reduce([chosen[axis] == part for axis, part in zip(by, place, strict=True)])
        found[place if len(by) > 1 else place[0]] = chosen[here]["judged"].to_numpy(float)
    return found
