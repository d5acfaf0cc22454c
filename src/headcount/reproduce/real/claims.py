"""The paper's claims about accuracy on real data, over heads and lengths, tested on our numbers."""

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Verdict, slope_interval
from headcount.reproduce.paper import Cells
from headcount.reproduce.real.noise import LEARNT, noise_of
from headcount.reproduce.reversal import reversal_score

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
    steps, noise = (
        means.diff().iloc[1:],
        noise_of(frame.groupby(["heads", "length"])["train_error"]).unstack(),
    )
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
