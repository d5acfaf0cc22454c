"""Every cell of a table in numbers: the learning rate is chosen on validation data, errors are test errors.

    1. Of each rate, the lowest validation error over its seeds; the rate where that is lowest is taken.
    2. At that rate: minimum, median, mean and deviation of the test errors over the seeds.
    3. A member that was polished stands beside them; the ratio to the paper's number takes the smaller.

The choice of the rate has not seen the test data; the minimum over seeds is one over test errors. `selected`
is the test error of the seed with the lowest validation error: no choice of any kind has seen that data.
`validation` is the minimum that the choice was made by. It is what the paper prints, and it flatters: 2,000
sequences rarely hold one that is hard.
"""

import json
from collections.abc import Sequence

import numpy as np
import pandas as pd

from headcount.reproduce.paper import Cells

CELL = ("heads", "length")


def summarise(frame: pd.DataFrame, *, by: Sequence[str] = CELL, paper: Cells | None = None) -> pd.DataFrame:
    """One row per cell, with the paper's number and ours over it where there is one."""
    polished = polish_steps(frame) > 0
    plain = frame[~polished]
    rows = [_row(members) for _, members in plain.groupby(list(by), sort=True)]
    table = pd.concat(
        [plain.groupby(list(by), sort=True).size().reset_index()[list(by)], pd.DataFrame(rows)], axis=1
    )
    table = table.merge(_polished(frame[polished], by), how="left", on=list(by))
    if paper is not None:
        cells = zip(table["heads"], table["length"], strict=True)
        table["paper"] = [paper.get((int(heads), int(length)), np.nan) for heads, length in cells]
        table["ratio"] = table[["min", "polished_test"]].min(axis=1) / table["paper"]
        by_validation = table["polished_validation"] < table["validation"]
        selected = table["polished_test"].where(by_validation, table["selected"])
        table["selected_ratio"] = selected / table["paper"]
        table["validation_ratio"] = table[["validation", "polished_validation"]].min(axis=1) / table["paper"]
    return table


def finished(frame: pd.DataFrame) -> pd.DataFrame:
    """The members that did not diverge."""
    errors = np.isfinite(frame["validation_error"]) & np.isfinite(frame["test_error"])
    return frame[(frame["status"] != "diverged") & errors]


def at_selected_rate(members: pd.DataFrame) -> pd.DataFrame:
    """The members of one cell that have the rate with the lowest validation error of all."""
    good = finished(members)
    if good.empty:
        return good
    best = good.groupby("learning_rate")["validation_error"].min()
    return good[good["learning_rate"] == best.idxmin()]


def polish_steps(frame: pd.DataFrame) -> "pd.Series[int]":
    """How many second-order steps ended each member's training."""
    steps = [json.loads(spec)["training"].get("polish_steps", 0) for spec in frame["spec"]]
    return pd.Series(steps, index=frame.index, dtype=int)


def _row(members: pd.DataFrame) -> dict[str, float]:
    chosen = at_selected_rate(members)
    errors = chosen["test_error"]
    return {
        "learning_rate": chosen["learning_rate"].min() if len(chosen) else np.nan,
        "seeds": len(chosen),
        "min": errors.min(),
        "median": errors.median(),
        "mean": errors.mean(),
        "std": errors.std(),
        "validation": chosen["validation_error"].min(),
        "selected": chosen.sort_values("validation_error")["test_error"].head(1).min(),
        "train": chosen["train_error"].min(),
        "members": len(members),
        "failed": len(members) - len(finished(members)),
    }


def _polished(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Of the members that were polished, the one with the lowest validation error."""
    best = frame.sort_values("validation_error").drop_duplicates(list(by))
    kinds = ("test", "validation", "train")
    columns = {f"{kind}_error": f"polished_{kind}" for kind in kinds}
    return best[[*by, *columns]].rename(columns=columns)
