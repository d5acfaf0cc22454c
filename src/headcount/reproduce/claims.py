"""Claims, and verdicts on them from a table of cells."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.reproduce.summary import at_selected_rate, polish_steps
from headcount.results.bootstrap import interval_95, resampled

RESAMPLES = 4000


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
