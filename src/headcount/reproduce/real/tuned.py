"""The members of a cell at the rate that suits it, chosen for each seed by the others.

So no error takes part in the choice of its own rate: that would flatter it, the more so the more rates.
"""

import json
from typing import Any

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Group

ALL_WRONG = 1.0  # the share of wrong answers of a member that diverged


def with_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows with what else was measured as columns of their own, and what mixes their tokens."""
    scores = pd.DataFrame([json.loads(text) for text in frame["scores"]], index=frame.index)
    specs = [json.loads(text)["architecture"]["encoder"] for text in frame["spec"]]
    mixing = [spec.get("mixing", "attention") for spec in specs]
    return frame.join(scores[[name for name in scores if name not in frame]]).assign(mixing=mixing)


def tuned_rows(members: pd.DataFrame, column: str = "train_error") -> pd.DataFrame:
    """A row for each seed, at the rate with the lowest mean of `column` over the other seeds."""
    lost = members["status"] == "diverged"
    members = members.assign(judged=members[column].where(~lost, ALL_WRONG).fillna(ALL_WRONG))
    table = members.pivot_table(index="seed", columns="learning_rate", values="judged")
    chosen = [(seed, (table.drop(seed) if len(table) > 1 else table).mean().idxmin()) for seed in table.index]
    return pd.concat(
        [
            members[(members["seed"] == seed) & (members["learning_rate"] == rate)].head(1)
            for seed, rate in chosen
        ]
    )


def tuned(members: pd.DataFrame, column: str = "train_error") -> Group:
    """The values of `column` over the seeds, at the rate that suits it."""
    return tuned_rows(members, column)["judged"].to_numpy(float)


def usual_rate(members: pd.DataFrame, column: str = "train_error") -> float:
    """The rate that most seeds are given."""
    return float(tuned_rows(members, column)["learning_rate"].mode().iloc[0])


def tuned_cells(frame: pd.DataFrame, *by: str, column: str = "train_error") -> dict[Any, Group]:
    """The tuned values of every cell, by its place or places along these axes."""
    found: dict[Any, Group] = {}
    for place in sorted(set(zip(*(frame[axis].tolist() for axis in by), strict=True))):
        here = np.logical_and.reduce([frame[axis] == part for axis, part in zip(by, place, strict=True)])
        found[place if len(by) > 1 else place[0]] = tuned(frame[here], column)
    return found
