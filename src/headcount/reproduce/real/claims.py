"""The paper's claims about accuracy on real data, over heads and lengths, tested on our numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float
from pandas.api.typing import SeriesGroupBy

from headcount.reproduce.claims import Cells, Verdict, reversal_score, slope_interval
from headcount.results.bootstrap import resampled

LEARNT = 1e-3  # a smaller share counts as none


def noise_of(cells: "SeriesGroupBy[Any, Any]") -> "pd.Series[float]":
    """Two standard errors of the mean of each cell; for a single seed, the largest of the other cells."""
    noise = 2 * cells.sem()
    return noise.fillna(noise.max()).fillna(0)


def allowed(one: float, other: float) -> float:
    """How far two means may lie apart, given the noise of each, and count as level."""
    return max(LEARNT, float(np.hypot(one, other)))


FEW = 4  # heads
MIN_WRONG = 1e-4  # a share below this is taken for this: its logarithm is that of a handful of samples


def all_learnt(frame: pd.DataFrame) -> Verdict | None:
    """The only verdict on the shape of errors where nearly nothing is wrong."""
    means = frame.groupby(["heads", "length"])["train_error"].mean()
    if means.empty or not means.max() < LEARNT:
        return None
    evidence = f"at most {means.max():.2%} is wrong in any of {len(means)} cells"
    return Verdict("training accuracy depends on h or T", False, evidence)


def rises_with_heads(frame: pd.DataFrame) -> Verdict:
    """At no T does the mean training error grow, beyond its noise, from one head count to the next."""
    claim = "training accuracy rises with h, at every T"
    means = _means(frame)
    if len(means.index) < 2 or means.isna().any(axis=None):
        return Verdict(claim, None, "needs two head counts and a finished member in each cell")
    noise = noise_of(frame.groupby(["heads", "length"])["train_error"]).unstack()
    steps = means.diff().iloc[1:]
    allowed = ((noise**2 + noise.shift() ** 2) ** 0.5).clip(lower=LEARNT).iloc[1:]
    level = int((steps.abs() <= allowed).to_numpy().sum())
    rising = [(heads, length) for heads, row in (steps > allowed).iterrows() for length in row.index[row]]
    if level == steps.size:
        return Verdict(claim, None, f"all {level} steps level within noise")
    held = f"{steps.size - level - len(rising)} of {steps.size} steps improve, {level} level within noise"
    if rising:
        named = ", ".join(f"to h = {heads} at T = {length}" for heads, length in rising[:6])
        return Verdict(claim, False, f"{held}; worse {named}")
    ends = (noise.iloc[0] ** 2 + noise.iloc[-1] ** 2) ** 0.5
    gained = means.iloc[0] - means.iloc[-1] > ends.clip(lower=LEARNT)
    same = [str(length) for length in means.columns[(means.iloc[0] >= LEARNT) & ~gained]]
    if same:
        return Verdict(
            claim, None, f"{held}; from the first to the last level within noise at T = {', '.join(same)}"
        )
    return Verdict(claim, True, held)


def falls_with_length(frame: pd.DataFrame) -> Verdict:
    """With few heads, the slope of log(mean share wrong) on log(T) is above 0, if not all is learnt."""
    claim = f"with up to {FEW} heads, training accuracy falls with T wherever not nearly all is learnt"
    evidence, holds = [], []
    for heads, members in frame[frame["heads"] <= FEW].groupby("heads"):
        groups = [
            np.maximum(cell["train_error"].dropna().to_numpy(), MIN_WRONG)
            for _, cell in members.groupby("length")
        ]
        lengths = np.array(sorted(members["length"].unique()), float)
        if len(lengths) < 2 or min(map(len, groups)) < 2:
            return Verdict(claim, None, "needs two lengths and two finished members at each")
        if max(map(np.mean, groups)) < LEARNT:
            evidence.append(f"h = {heads}: nearly all is learnt")
            continue
        slope, low, high = slope_interval(lengths, groups, of=np.mean)
        evidence.append(f"h = {heads}: slope {slope:.2f} ({low:.2f} to {high:.2f})")
        holds.append(True if low > 0 else False if high < 0 else None)
    verdict = False if False in holds else True if holds and None not in holds else None
    return Verdict(claim, verdict, ", ".join(evidence))


def reversal(frame: pd.DataFrame, paper: Cells) -> Verdict:
    """The first h with a positive reversal score, by ours and by the paper's numbers in the same cells."""
    claim = "the reversal score turns positive at some h"
    means = _means(frame)
    if len(means.columns) < 2 or means.isna().any(axis=None):
        return Verdict(claim, None, "needs two lengths and a finished member in each cell")
    ours = {
        (int(heads), int(length)): max(LEARNT, float(means.loc[heads, length]))
        for heads in means.index
        for length in means.columns
    }
    theirs = {cell: paper[cell] for cell in ours if cell in paper}
    first = _reversed(ours)
    evidence = _first_at(first)
    if theirs:
        evidence += f"; by the paper's numbers at these T {_first_at(_reversed(theirs))}"
    return Verdict(claim, first is not None, evidence)


def _first_at(heads: int | None) -> str:
    return "at no trained h" if heads is None else f"at h = {heads}"


def _reversed(cells: Cells) -> int | None:
    for heads in sorted({heads for heads, _ in cells}):
        errors = np.array([cells[cell] for cell in sorted(cells) if cell[0] == heads])
        if len(errors) > 1 and reversal_score(errors) > 0:
            return heads
    return None


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot_table(index="heads", columns="length", values="train_error")


RESAMPLES = 2000
FADED = 0.1  # of the largest gap between lengths: below that, length no longer matters


def where_length_fades(frame: pd.DataFrame, paper: Cells) -> Verdict:
    """The number of heads from which the gap between the shortest and the longest T is small."""
    claim = "the dependence on T, in points of accuracy, fades as h grows"
    lengths = sorted(frame["length"].unique())
    cells = {
        (heads, length): cell["train_error"].dropna().to_numpy()
        for (heads, length), cell in frame.groupby(["heads", "length"])
    }
    heads = sorted(int(count) for count in frame["heads"].unique())
    ends = [[cells.get((h, T), np.empty(0)) for h in heads] for T in (*lengths[:1], *lengths[-1:])]
    if len(lengths) < 2 or any(not len(seeds) for end in ends for seeds in end):
        return Verdict(claim, None, "needs two lengths and a finished member in each cell")
    random = np.random.default_rng(0)

    def gaps(mean: Callable[[np.ndarray], float]) -> np.ndarray:
        return np.array([mean(long) - mean(short) for short, long in zip(*ends, strict=True)])

    points = ", ".join(
        f"h = {h}: {100 * (long.mean() - short.mean()):.1f}{_times(short.mean(), long.mean())}"
        for h, short, long in zip(heads, *ends, strict=True)
    )
    evidence = f"gap in points (and ratio of errors) from T = {lengths[0]} to {lengths[-1]}: {points}; "
    noise = noise_of(frame.groupby(["heads", "length"])["train_error"])
    beyond = [allowed(*(noise.loc[(h, T)] for T in (lengths[0], lengths[-1]))) for h in heads]
    if not (gaps(np.mean) > np.array(beyond)).any():
        return Verdict(claim, None, f"{evidence}no gap beyond noise at any h")
    found = faded(heads, gaps(np.mean))
    drawn = [
        faded(heads, gaps(lambda seeds: float(resampled(seeds, 1, random)[0]))) for _ in range(RESAMPLES)
    ]
    of_paper = _of_paper(heads, lengths, paper)
    if found is None:
        return Verdict(claim, False, f"{evidence}never below a tenth of the largest gap{of_paper}")
    evidence += f"below a tenth of the largest gap for h ≥ {found}"
    known = sorted(count for count in drawn if count is not None)
    low, high = (known[round(share * (len(known) - 1))] for share in (0.025, 0.975))
    unsure = 1 - len(known) / RESAMPLES
    if unsure > 0.025:
        return Verdict(claim, None, f"{evidence}, but nowhere in {unsure:.0%} of resamples over seeds")
    between = (
        f"between h = {heads[heads.index(low) - 1]} and {high}" if low > heads[0] else f"up to h = {high}"
    )
    interval = f"(95% interval over seeds and trained head counts: {between})"
    return Verdict(claim, True, f"{evidence} {interval}{of_paper}")


def _times(short: float, long: float) -> str:
    """How many times the error; no multiple of an error that is next to nothing."""
    return f" ({long / short:.1f}×)" if short >= LEARNT else ""


def _of_paper(heads: Sequence[int], lengths: Sequence[int], paper: Cells) -> str:
    """Where the gap fades by the same rule in the paper's numbers, if it has these cells."""
    ends = [[paper.get((h, T)) for h in heads] for T in (lengths[0], lengths[-1])]
    gaps = [long - short for short, long in zip(*ends, strict=True) if short is not None and long is not None]
    if len(gaps) < len(heads):
        return ""
    found = faded(heads, np.array(gaps))
    return "; by the paper's numbers " + (f"for h ≥ {found}" if found else "at no h")


def faded(heads: Sequence[int], gaps: Float[np.ndarray, " heads"]) -> int | None:
    """The first head count from which all gaps are below a tenth of the largest, if there is one.

    >>> faded([1, 2, 4], np.array([0.5, 0.25, 0.0]))
    4
    """
    if gaps.max() <= 0:
        return heads[0]
    after = int(np.flatnonzero(gaps > FADED * gaps.max())[-1]) + 1
    return heads[after] if after < len(heads) else None
