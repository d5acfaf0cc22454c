"""What the paper claims of accuracy on real data, over heads and lengths, and whether ours bears it out."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.reproduce.claims import Verdict, slope_interval
from headcount.reproduce.paper import Cells
from headcount.reproduce.reversal import reversal_score

RESAMPLES = 2000
FADED = 0.1  # of the largest gap between lengths: below that, length no longer matters
FEW = 4  # heads
FEWEST_WRONG = 1e-4  # a share below this is taken for this: its logarithm is that of a handful of samples
LEARNT = 1e-3  # a smaller share is not told from none


def all_learnt(frame: pd.DataFrame) -> Verdict | None:
    """Said instead of anything on the shape of errors, where there are none to speak of."""
    means = frame.groupby(["heads", "length"])["train_error"].mean()
    if means.empty or not means.max() < LEARNT:
        return None
    told = f"at most {means.max():.2%} is wrong in any of {len(means)} cells"
    return Verdict("training accuracy depends on h or T", False, told)


def rises_with_heads(frame: pd.DataFrame) -> Verdict:
    """At no T does the mean training error grow, beyond its own noise, from a number of heads to the next."""
    claim = "training accuracy rises with h, at every T"
    means = _means(frame)
    if len(means.index) < 2 or means.isna().any(axis=None):
        return Verdict(claim, None, "needs two head counts, and a member of each cell that finished")
    steps, noise = means.diff().iloc[1:], _noise(frame)
    allowed = ((noise**2 + noise.shift() ** 2) ** 0.5).clip(lower=LEARNT).iloc[1:]
    level = int((steps.abs() <= allowed).to_numpy().sum())
    rising = [(heads, length) for heads, row in (steps > allowed).iterrows() for length in row.index[row]]
    if level == steps.size:
        return Verdict(claim, None, f"all {level} steps level within noise")
    held = f"{steps.size - level - len(rising)} of {steps.size} steps up, {level} level within noise"
    if rising:
        named = ", ".join(f"to h = {heads} at T = {length}" for heads, length in rising[:6])
        return Verdict(claim, False, f"{held}; down {named}")
    ends = (noise.iloc[0] ** 2 + noise.iloc[-1] ** 2) ** 0.5
    gained = means.iloc[0] - means.iloc[-1] > ends.clip(lower=LEARNT)
    same = [str(length) for length in means.columns[(means.iloc[0] >= LEARNT) & ~gained]]
    if same:
        return Verdict(
            claim, None, f"{held}; from the first to the last within noise at T = {', '.join(same)}"
        )
    return Verdict(claim, True, held)


def falls_with_length(frame: pd.DataFrame) -> Verdict:
    """With few heads, the slope of log(mean share wrong) on log(T) is above 0, if not all is learnt."""
    claim = f"with up to {FEW} heads, training accuracy falls with T wherever not nearly all is learnt"
    told, holds = [], []
    for heads, members in frame[frame["heads"] <= FEW].groupby("heads"):
        groups = [
            np.maximum(cell["train_error"].dropna().to_numpy(), FEWEST_WRONG)
            for _, cell in members.groupby("length")
        ]
        lengths = np.array(sorted(members["length"].unique()), float)
        if len(lengths) < 2 or min(map(len, groups)) < 2:
            return Verdict(claim, None, "needs two lengths and two members of each that finished")
        if max(map(np.mean, groups)) < LEARNT:
            told.append(f"h = {heads}: nearly all is learnt")
            continue
        slope, low, high = slope_interval(lengths, groups, of=np.mean)
        told.append(f"h = {heads}: slope {slope:.2f} ({low:.2f} to {high:.2f})")
        holds.append(True if low > 0 else False if high < 0 else None)
    verdict = False if False in holds else True if holds and None not in holds else None
    return Verdict(claim, verdict, ", ".join(told))


def where_length_fades(frame: pd.DataFrame, paper: Cells) -> Verdict:
    """The trained number of heads from which on the gap between the shortest and the longest is small."""
    claim = "the dependence on T, in points of accuracy, fades as h grows"
    lengths = sorted(frame["length"].unique())
    cells = {
        (heads, length): cell["train_error"].dropna().to_numpy()
        for (heads, length), cell in frame.groupby(["heads", "length"])
    }
    heads = sorted(int(count) for count in frame["heads"].unique())
    ends = [[cells.get((h, T), np.empty(0)) for h in heads] for T in (*lengths[:1], *lengths[-1:])]
    if len(lengths) < 2 or any(not len(seeds) for end in ends for seeds in end):
        return Verdict(claim, None, "needs two lengths and a member of each cell that finished")
    random = np.random.default_rng(0)

    def gaps(mean: Callable[[np.ndarray], float]) -> np.ndarray:
        return np.array([mean(long) - mean(short) for short, long in zip(*ends, strict=True)])

    points = ", ".join(
        f"h = {h}: {100 * (long.mean() - short.mean()):.1f}{_times(short.mean(), long.mean())}"
        for h, short, long in zip(heads, *ends, strict=True)
    )
    told = f"points (times the error) between T = {lengths[0]} and {lengths[-1]}: {points}; "
    noise = _noise(frame)
    of_gaps = ((noise[lengths[0]] ** 2 + noise[lengths[-1]] ** 2) ** 0.5).clip(lower=LEARNT)
    if not (gaps(np.mean) > of_gaps.to_numpy()).any():
        return Verdict(claim, None, f"{told}there is none beyond noise at any h")
    found = faded(heads, gaps(np.mean))
    drawn = [
        faded(heads, gaps(lambda seeds: random.choice(seeds, len(seeds)).mean())) for _ in range(RESAMPLES)
    ]
    of_paper = _of_paper(heads, lengths, paper)
    if found is None:
        return Verdict(claim, False, f"{told}not below a tenth of its largest at any h{of_paper}")
    told += f"below a tenth of its largest from h = {found} on"
    known = sorted(count for count in drawn if count is not None)
    low, high = (known[round(share * (len(known) - 1))] for share in (0.025, 0.975))
    unsure = 1 - len(known) / RESAMPLES
    if unsure > 0.025:
        return Verdict(claim, None, f"{told}, but at no h in {unsure:.0%} of the draws from its seeds")
    below = [
        f"between h = {heads[heads.index(low) - 1]} and {high}" if low > heads[0] else f"up to h = {high}"
    ]
    interval = f"(95% interval over seeds and trained head counts: {below[0]})"
    return Verdict(claim, True, f"{told} {interval}{of_paper}")


def _times(short: float, long: float) -> str:
    """How many times the error; of next to nothing no multiple is told."""
    return f" ({long / short:.1f}×)" if short >= LEARNT else ""


def _of_paper(heads: Sequence[int], lengths: Sequence[int], paper: Cells) -> str:
    """Where the paper's numbers fade by the same rule, if it has these cells."""
    ends = [[paper.get((h, T)) for h in heads] for T in (lengths[0], lengths[-1])]
    gaps = [long - short for short, long in zip(*ends, strict=True) if short is not None and long is not None]
    if len(gaps) < len(heads):
        return ""
    found = faded(heads, np.array(gaps))
    return "; by the paper's numbers " + (f"from h = {found} on" if found else "at no h")


def faded(heads: Sequence[int], gaps: Float[np.ndarray, " heads"]) -> int | None:
    """The first of these head counts from which on all gaps are below a tenth of the largest, if any is.

    >>> faded([1, 2, 4], np.array([0.5, 0.25, 0.0]))
    4
    """
    if gaps.max() <= 0:
        return heads[0]
    after = int(np.flatnonzero(gaps > FADED * gaps.max())[-1]) + 1
    return heads[after] if after < len(heads) else None


def reversal(frame: pd.DataFrame, paper: Cells) -> Verdict:
    """The first h with a positive reversal score, by ours and by the paper's numbers in the same cells."""
    claim = "the reversal score turns positive at some h"
    means = _means(frame)
    if len(means.columns) < 2 or means.isna().any(axis=None):
        return Verdict(claim, None, "needs two lengths and a member of each cell that finished")
    ours = {
        (int(heads), int(length)): max(LEARNT, float(means.loc[heads, length]))
        for heads in means.index
        for length in means.columns
    }
    first, of_paper = _reversed(ours), _reversed({cell: paper[cell] for cell in ours if cell in paper})
    told = [f"at h = {found}" if found else "at no h that was trained" for found in (first, of_paper)]
    return Verdict(claim, first is not None, f"{told[0]}; by the paper's numbers at these T {told[1]}")


def _reversed(cells: Cells) -> int | None:
    for heads in sorted({heads for heads, _ in cells}):
        errors = np.array([cells[cell] for cell in sorted(cells) if cell[0] == heads])
        if len(errors) > 1 and reversal_score(errors) > 0:
            return heads
    return None


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot_table(index="heads", columns="length", values="train_error")


def _noise(frame: pd.DataFrame) -> pd.DataFrame:
    """Two standard errors of each mean; of a single seed, the most that is known of others."""
    noise = 2 * frame.groupby(["heads", "length"])["train_error"].sem()
    return noise.fillna(noise.max()).fillna(0).unstack()
