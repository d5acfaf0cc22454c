"""Cells of a table in numbers, claims about them, and verdicts.

The learning rate is chosen on validation data, errors are test errors:

    1. Of each rate, the lowest validation error over its seeds; the rate where that is lowest is taken.
    2. At that rate: minimum, median, mean and deviation of the test errors over the seeds.
    3. A member that was polished stands beside them; the ratio to the paper's number takes the smaller.

The choice of the rate has not seen the test data; the minimum over seeds is one over test errors. `selected`
is the test error of the seed with the lowest validation error: no choice of any kind has seen that data.
`validation` is the minimum that the choice was made by. It is what the paper prints, and it flatters: 2,000
sequences rarely hold one that is hard.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.results.bootstrap import interval_95, resampled

Cells = Mapping[tuple[int, int], float]  # (heads, length) to an error
CELL = ("heads", "length")
RESAMPLES = 4000


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
    columns = {f"{kind}_error": f"polished_{kind}" for kind in ("test", "validation", "train")}
    return best[[*by, *columns]].rename(columns=columns)


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it holds here (None: cannot tell), and the numbers that decide."""

    claim: str
    holds: bool | None
    evidence: str

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        return {True: "holds", False: "does not hold", None: "cannot tell"}[self.holds]

    def __str__(self) -> str:
        return f"{self.word}: {self.claim} ({self.evidence})"


def falls(table: pd.DataFrame, *, at: int, below: int, factor: float) -> Verdict:
    """At every length the minimum error falls at least `factor`-fold from `below` heads to `at` heads."""
    claim = f"the error falls at least {factor:g}-fold from h = {below} to h = {at}, at every T"
    errors = table.pivot(index="heads", columns="length", values="min")
    if not {at, below} <= set(errors.index):
        return Verdict(claim, None, "these head counts were not trained")
    folds = errors.loc[below] / errors.loc[at]
    if folds.isna().any():
        return Verdict(claim, None, "a cell has no finished member")
    evidence = ", ".join(f"T = {length}: {fold:,.0f}" for length, fold in folds.items())
    return Verdict(claim, bool((folds >= factor).all()), evidence)


def no_worse(
    table: pd.DataFrame, *, heads: Callable[[int], bool], factor: float, column: str, where: str
) -> Verdict:
    """In every cell with these heads our minimum is at most `factor` times the paper's number."""
    much = "at most the paper's" if factor == 1 else f"within {factor:g} times the paper's"
    names = {
        "ratio": f"our minimum over seeds is {much}, on test data",
        "validation_ratio": f"our minimum over seeds is {much}, on validation data, as the paper reports",
        "selected_ratio": f"the seed that validation selects is {much}, on test data",
    }
    claim = f"{where}, {names[column]}"
    cells = table[table["heads"].map(heads) & table["paper"].notna()]
    if cells.empty or cells[column].isna().any():
        return Verdict(claim, None, "a cell has no finished member, or the paper has no number for it")
    beyond = cells[cells[column] > factor]
    held = f"{len(cells) - len(beyond)} of {len(cells)} cells, largest ratio {cells[column].max():.2g}"
    places = zip(beyond["heads"], beyond["length"], beyond[column], strict=True)
    named = ", ".join(f"h = {heads}, T = {length}: {ratio:.2g}" for heads, length, ratio in places)
    return Verdict(claim, beyond.empty, f"{held}; beyond: {named}" if named else held)


def within(table: pd.DataFrame, *, heads: Callable[[int], bool], factor: float, where: str) -> Verdict:
    """In every cell with these heads our minimum and the paper's number differ at most by `factor`."""
    claim = f"{where}, our minimum and the paper's number are within a factor of {factor:g} of each other"
    cells = table[table["heads"].map(heads) & table["paper"].notna()]
    if cells.empty or cells["ratio"].isna().any():
        return Verdict(claim, None, "a cell has no finished member, or the paper has no number for it")
    apart = np.maximum(cells["ratio"], 1 / cells["ratio"])
    ours = f"ratios from {cells['ratio'].min():.2g} to {cells['ratio'].max():.2g}"
    return Verdict(claim, bool((apart <= factor).all()), f"{(apart <= factor).sum()} of {len(cells)}; {ours}")


def grows_with_length(frame: pd.DataFrame, *, below: int) -> list[Verdict]:
    """For every h below: the slope of log(minimum error) on log(T), bootstrapped over seeds, is above 0."""
    plain = frame[polish_steps(frame) == 0]
    verdicts = []
    for heads, members in plain[plain["heads"] < below].groupby("heads"):
        claim = f"with h = {heads} the error grows with T"
        groups = [at_selected_rate(cell)["test_error"].to_numpy() for _, cell in members.groupby("length")]
        lengths = np.array(sorted(members["length"].unique()), float)
        if len(lengths) < 3 or min(map(len, groups)) < 2:
            verdicts.append(Verdict(claim, None, "needs three lengths and two seeds"))
            continue
        slope, low, high = slope_interval(lengths, groups)
        evidence = f"slope {slope:.2f}, 95% interval {low:.2f} to {high:.2f}"
        verdicts.append(Verdict(claim, True if low > 0 else False if high < 0 else None, evidence))
    return verdicts


def slope_interval(
    x: Float[np.ndarray, " places"],
    groups: list[Float[np.ndarray, " seeds"]],
    *,
    of: Callable[..., Any] = np.min,
    seed: int = 0,
) -> tuple[float, float, float]:
    """The slope of log(minimum of a group) on log(x), and its 95% interval over resampled seeds.

    `of`: the statistic of a group, in place of its minimum.

    >>> x = np.array([8.0, 16.0, 32.0])
    >>> slope, low, high = slope_interval(x, [a * np.array([1.0, 1.1]) for a in x**0.5])
    >>> round(slope, 2), low <= slope <= high
    (0.5, True)
    """
    random = np.random.default_rng(seed)
    drawn = np.stack([resampled(group, RESAMPLES, random, of=of) for group in groups])
    slopes = np.polyfit(np.log(x), np.log(drawn), 1)[0]
    slope = np.polyfit(np.log(x), np.log([of(group) for group in groups]), 1)[0]
    return float(slope), *interval_95(slopes)


def reversal_score(errors: Float[np.ndarray, " lengths"]) -> float:
    """R = Σ_{T1 < T2} max(err(T1) − err(T2), 0) / (max_T err − min_T err): 0 where errors only grow.

    The paper takes the first h with R > 0 for the transition. On its own Table 4 that is h = 2, with D = 3:
    the score sees an order, not a size.

    >>> reversal_score(np.array([1.0, 2.0, 3.0])), reversal_score(np.array([3.0, 2.0]))
    (0.0, 1.0)
    """
    spread = float(np.max(errors) - np.min(errors))
    if spread == 0:
        return 0.0
    earlier, later = np.triu_indices(len(errors), k=1)
    return float(np.maximum(errors[earlier] - errors[later], 0).sum() / spread)
