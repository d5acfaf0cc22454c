"""What the paper claims of accuracy on real data, over heads and lengths, and whether ours bears it out."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.reproduce.claims import Verdict, slope_interval
from headcount.reproduce.law import fit_law, law_intervals
from headcount.reproduce.paper import Cells
from headcount.reproduce.paper_real import LAW
from headcount.reproduce.reversal import reversal_score

RESAMPLES = 2000
FADED = 0.1  # of the largest gap between lengths: below that, length no longer matters
FEW = 4  # heads
FEWEST_WRONG = 1e-4  # a share below this is taken for this: its logarithm is that of a handful of samples
LEARNT = 1e-3  # a smaller share is not told from none
FEWEST_CELLS = 8  # to fit a law of three numbers to


def rises_with_heads(frame: pd.DataFrame) -> Verdict:
    """At no T does the mean training error grow, beyond its own noise, from a number of heads to the next."""
    claim = "training accuracy rises with h, at every T"
    means = _means(frame)
    if len(means.index) < 2 or means.isna().any(axis=None):
        return Verdict(claim, None, "a cell has no member that finished")
    steps, noise = means.diff().iloc[1:], _noise(frame)
    allowed = ((noise**2 + noise.shift() ** 2) ** 0.5).clip(lower=LEARNT).iloc[1:]
    level = int((steps.abs() <= allowed).to_numpy().sum())
    rising = [(heads, length) for heads, row in (steps > allowed).iterrows() for length in row.index[row]]
    if level == steps.size:
        return Verdict(claim, None, f"all {level} steps level within noise")
    held = f"{steps.size - level - len(rising)} of {steps.size} steps up, {level} level within noise"
    named = ", ".join(f"to h = {heads} at T = {length}" for heads, length in rising[:6])
    return Verdict(claim, not rising, f"{held}; down {named}" if rising else held)


def falls_with_length(frame: pd.DataFrame) -> Verdict:
    """With few heads, the slope of log(mean share wrong) on log(T) is above 0."""
    claim = f"with up to {FEW} heads, training accuracy falls with T"
    told, holds = [], []
    for heads, members in frame[frame["heads"] <= FEW].groupby("heads"):
        groups = [
            np.maximum(cell["train_error"].dropna().to_numpy(), FEWEST_WRONG)
            for _, cell in members.groupby("length")
        ]
        lengths = np.array(sorted(members["length"].unique()), float)
        if len(lengths) < 2 or min(map(len, groups)) < 1:
            return Verdict(claim, None, "needs two lengths and a member of each that finished")
        if max(map(np.mean, groups)) < LEARNT:
            told.append(f"h = {heads}: nearly all is learnt at every T")
            continue
        slope, low, high = slope_interval(lengths, groups, of=np.mean)
        told.append(f"h = {heads}: slope {slope:.2f} ({low:.2f} to {high:.2f})")
        holds.append(low > 0)
    return Verdict(claim, all(holds) if holds else None, ", ".join(told))


def where_length_fades(frame: pd.DataFrame) -> Verdict:
    """The trained number of heads from which on the gap between the shortest and the longest is small."""
    claim = "the dependence on T fades as h grows"
    lengths = sorted(frame["length"].unique())
    cells = {
        (heads, length): cell["train_error"].dropna().to_numpy()
        for (heads, length), cell in frame.groupby(["heads", "length"])
    }
    heads = sorted(int(count) for count in frame["heads"].unique())
    ends = [[cells.get((h, T), np.empty(0)) for h in heads] for T in (lengths[0], lengths[-1])]
    if len(lengths) < 2 or any(not len(seeds) for end in ends for seeds in end):
        return Verdict(claim, None, "needs two lengths and a member of each cell that finished")
    random = np.random.default_rng(0)

    def gaps(mean: Callable[[np.ndarray], float]) -> np.ndarray:
        return np.array([mean(long) - mean(short) for short, long in zip(*ends, strict=True)])

    points = ", ".join(f"h = {h}: {100 * gap:.1f}" for h, gap in zip(heads, gaps(np.mean), strict=True))
    told = f"points of accuracy between T = {lengths[0]} and {lengths[-1]}: {points}; "
    if gaps(np.mean).max() < LEARNT:
        return Verdict(claim, None, f"{told}there is none at any h")
    found = faded(heads, gaps(np.mean))
    drawn = [
        faded(heads, gaps(lambda seeds: random.choice(seeds, len(seeds)).mean())) for _ in range(RESAMPLES)
    ]
    if found is None:
        return Verdict(claim, False, f"{told}not below a tenth of its largest at any h")
    told += f"below a tenth of its largest from h = {found} on"
    known = sorted(count for count in drawn if count is not None)
    low, high = (known[round(share * (len(known) - 1))] for share in (0.025, 0.975))
    unsure = 1 - len(known) / RESAMPLES
    if unsure > 0.025:
        return Verdict(claim, None, f"{told}, but at no h in {unsure:.0%} of the draws from its seeds")
    below = [
        f"between h = {heads[heads.index(low) - 1]} and {high}" if low > heads[0] else f"up to h = {high}"
    ]
    return Verdict(claim, True, f"{told} (95% interval over seeds and trained head counts: {below[0]})")


def faded(heads: Sequence[int], gaps: Float[np.ndarray, " heads"]) -> int | None:
    """The first of these head counts from which on all gaps are below a tenth of the largest, if any is.

    >>> faded([1, 2, 4], np.array([0.5, 0.25, 0.0]))
    4
    """
    if gaps.max() <= 0:
        return heads[0]
    after = int(np.flatnonzero(gaps > FADED * gaps.max())[-1]) + 1
    return heads[after] if after < len(heads) else None


def paper_s_law(frame: pd.DataFrame) -> Verdict:
    """1 − accuracy ≈ c · T^b · exp(a · h / T^delta), with the paper's delta and with one of our own.

    It holds where it explains the errors and the interval of its exponent has the paper's in it.
    """
    delta = LAW["delta"]
    claim = f"1 − accuracy follows c · T^b · exp(a · h / T^{delta:g}), the paper's law"
    cells = [cell for _, cell in frame.dropna(subset="train_error").groupby(["heads", "length"])]
    groups = [cell for cell in cells if cell["train_error"].mean() >= LEARNT]
    still = f"{len(groups)} of {len(cells)} cells in which more than {LEARNT:.1%} is wrong"
    if len(groups) < FEWEST_CELLS or len({cell["length"].iloc[0] for cell in groups}) < 2:
        return Verdict(claim, None, f"needs {FEWEST_CELLS} cells and two lengths that still err: {still}")
    heads, lengths = (
        np.array([float(cell[axis].iloc[0]) for cell in groups]) for axis in ("heads", "length")
    )
    seeds = [np.maximum(cell["train_error"].to_numpy(), FEWEST_WRONG) for cell in groups]
    means = np.array([of_cell.mean() for of_cell in seeds])
    law, free = (fit_law(heads, lengths, means, delta=chosen) for chosen in (delta, None))
    ends = law_intervals(heads, lengths, seeds, delta=delta)
    of_free = law_intervals(heads, lengths, seeds)["delta"]
    numbers = ", ".join(
        f"{name} = {getattr(law, name):.2g} ({ends[name][0]:.2g} to {ends[name][1]:.2g})" for name in "abc"
    )
    told = (
        f"{numbers} over {still}; "
        f"the paper has a = {LAW['a']:.2f}; it leaves {law.unexplained:.0%} of the variance of "
        f"log errors; with delta free it is {free.delta:.2f} ({of_free[0]:.2f} to {of_free[1]:.2f}), "
        f"{free.unexplained:.0%} left"
    )
    low, high = ends["a"]
    return Verdict(claim, bool(law.unexplained < 0.1 and low <= LAW["a"] <= high), told)


def reversal(frame: pd.DataFrame, paper: Cells) -> Iterator[Verdict]:
    """The first h with a positive reversal score, by the paper's numbers and by ours."""
    means = _means(frame)
    ours = {
        (int(heads), int(length)): max(LEARNT, float(means.loc[heads, length]))
        for heads in means.index
        for length in means.columns
    }
    for whose, cells in (("the paper's numbers", paper), ("ours", ours)):
        claim = f"the reversal score of {whose} turns positive at some h"
        yield _reversal(claim, cells)


def _reversal(claim: str, cells: Cells) -> Verdict:
    for heads in sorted({heads for heads, _ in cells}):
        errors = np.array([cells[cell] for cell in sorted(cells) if cell[0] == heads])
        if len(errors) > 1 and reversal_score(errors) > 0:
            return Verdict(claim, True, f"first at h = {heads}")
    return Verdict(claim, False, "at no h that was trained")


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot_table(index="heads", columns="length", values="train_error")


def _noise(frame: pd.DataFrame) -> pd.DataFrame:
    """Two standard errors of each mean; of a single seed none is known."""
    cells = frame.groupby(["heads", "length"])["train_error"]
    return (2 * cells.sem()).fillna(0).unstack()
