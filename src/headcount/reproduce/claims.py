"""Cells of a table in numbers, claims about them, and verdicts.

The learning rate is chosen on validation data, errors are test errors:

    1. Of each rate, the lowest validation error over its seeds; the rate where that is lowest is taken.
    2. At that rate: minimum, median, mean and deviation of the test errors over the seeds.

The choice of the rate has not seen the test data; the minimum over seeds is one over test errors. `selected`
is the test error of the seed with the lowest validation error: no choice of any kind has seen that data.
`validation` is the minimum that the choice was made by. It is what the paper prints, and it flatters: 2,000
sequences rarely hold one that is hard.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.results.intervals import Estimated, median_ratio_interval, slope, spanning

Cells = Mapping[tuple[int, int], float]  # (heads, length) to an error
CELL = ("heads", "length")
RATIOS = {
    "ratio": "min",
    "median_ratio": "median",
    "validation_ratio": "validation",
    "selected_ratio": "selected",
}
STATISTICS = {"min": "minimum", "median": "median", "selected": "seed that validation selects"}
Group = Float[np.ndarray, " seeds"]


def summarise(frame: pd.DataFrame, *, by: Sequence[str] = CELL, paper: Cells | None = None) -> pd.DataFrame:
    """One row per cell, with the paper's number and ours over it where there is one."""
    cells = frame.groupby(list(by), sort=True)
    rows = pd.DataFrame([_row(members) for _, members in cells])
    table = pd.concat([cells.size().reset_index()[list(by)], rows], axis=1)
    if paper is not None:
        places = zip(table["heads"], table["length"], strict=True)
        table["paper"] = [paper.get((int(heads), int(length)), np.nan) for heads, length in places]
        for column, ours in RATIOS.items():
            table[column] = table[ours] / table["paper"]
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


def falls(frame: pd.DataFrame, *, at: int, below: int, factor: float) -> Verdict:
    """At every length the minimum, the median and the selected seed's error fall at least `factor`-fold."""
    claim = (
        f"the error falls at least {factor:g}-fold from h = {below} to h = {at}, at every T, by any statistic"
    )
    folds = fall_table(frame, at=at, below=below)
    if folds is None:
        return Verdict(claim, None, "these head counts were not trained")
    if folds[list(STATISTICS)].isna().any(axis=None):
        return Verdict(claim, None, "a cell has no finished member")
    evidence = "; ".join(
        f"T = {length}: {row['min']:,.0f}, {row['median']:,.0f}{_span(row)}, {row['selected']:,.0f}"
        for length, row in folds.iterrows()
    )
    holds = bool((folds[list(STATISTICS)] >= factor).all(axis=None))
    return Verdict(claim, holds, f"by minimum, median (95% interval), selected seed: {evidence}")


def _span(row: "pd.Series[float]") -> str:
    return "" if np.isnan(row["low"]) else f" ({row['low']:,.0f} to {row['high']:,.0f})"


def fall_table(frame: pd.DataFrame, *, at: int, below: int) -> pd.DataFrame | None:
    """How many times smaller each statistic is at each length; `low`, `high`: the median's 95% interval."""
    table = summarise(frame[frame["heads"].isin((below, at))])
    errors = table.pivot(index="heads", columns="length", values=list(STATISTICS))
    if not {at, below} <= set(errors.index):
        return None
    folds = pd.DataFrame({name: errors[name].loc[below] / errors[name].loc[at] for name in STATISTICS})
    ends = [fall_interval(frame[frame["length"] == length], below, at) for length in folds.index]
    folds[["low", "high"]] = [(np.nan, np.nan) if end is None else end for end in ends]
    return folds


def fall_interval(members: pd.DataFrame, below: int, at: int) -> tuple[float, float] | None:
    """The 95% interval of how many times smaller the median is with `at` heads, of 7 seeds or more."""
    more, fewer = (errors_of(members[members["heads"] == heads]) for heads in (at, below))
    return median_ratio_interval(fewer, more)


def errors_of(members: pd.DataFrame) -> Group:
    """The test errors of a cell over its seeds, at the selected rate."""
    return at_selected_rate(members)["test_error"].to_numpy(float)


def errors_by(members: pd.DataFrame, axis: str) -> dict[int, Group]:
    """The errors of every cell along an axis, smallest first."""
    places = sorted(int(place) for place in members[axis].unique())
    return {place: errors_of(members[members[axis] == place]) for place in places}


def no_worse(
    table: pd.DataFrame, *, heads: Callable[[int], bool], factor: float, column: str, where: str
) -> Verdict:
    """In every cell with these heads our minimum is at most `factor` times the paper's number."""
    much = "at most the paper's" if factor == 1 else f"within {factor:g} times the paper's"
    names = {
        "ratio": f"our minimum over seeds is {much}, on test data",
        "median_ratio": f"our median over seeds is {much}, on test data",
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


def change_with_length(frame: pd.DataFrame, *, enough: int, where: str = "") -> Iterator[Verdict]:
    """For every h the slope of log(error) on log(T) over seeds: above 0 below D, and from D on not.

    The slope is that of the mean of log(error) over the seeds that are not stuck. The claim holds only if it
    does with the others too.
    """
    for heads in sorted(int(count) for count in frame["heads"].unique()):
        few = heads < enough
        claim = f"{where}with h = {heads} the error {'grows' if few else 'does not grow'} with T"
        groups = errors_by(frame[frame["heads"] == heads], "length")
        if len(groups) < 3 or min(map(len, groups.values())) < 2:
            yield Verdict(claim, None, "needs three lengths and two seeds")
            continue
        lengths, seeds = np.array(list(groups), float), sum(map(len, groups.values()))
        found = log_slope(lengths, list(groups.values()))
        lowest, middle = (
            log_slope(lengths, [np.atleast_1d(of(errors)) for errors in groups.values()]).value
            for of in (np.min, np.median)
        )
        holds = found.sign > 0 if few else found.sign < 0
        places = f"T = {min(groups)} to {max(groups)}, {seeds} members"
        evidence = f"slope {found} over {places}; by minima {lowest:z.2f}, by medians {middle:z.2f}"
        yield Verdict(claim, holds if found.sign else None, evidence)


def log_slope(x: Float[np.ndarray, " place"], groups: Sequence[Group], *, floor: float = 1e-12) -> Estimated:
    """The exponent b of error ~ x^b, by the seeds that are not stuck, and with an interval that spans all.

    An error below `floor` is taken for it.

    >>> x = np.array([8.0, 16.0, 32.0])
    >>> str(log_slope(x, [a * np.array([1.0, 1.1]) for a in x**0.5]))
    '0.50 (0.34 to 0.66)'
    """
    logs = [np.log(np.maximum(group, floor)) for group in groups]
    return spanning(logs, partial(slope, np.log(x)))


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
