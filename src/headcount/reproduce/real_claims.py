"""What the paper claims of accuracy on real data, over heads and lengths, and whether ours bears it out."""

import json
from collections.abc import Iterator, Sequence

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


def rises_with_heads(frame: pd.DataFrame) -> Verdict:
    """At every T the mean training error grows from no number of heads to the next."""
    claim = "training accuracy rises with h, at every T"
    means = _means(frame)
    if len(means.index) < 2 or means.isna().any(axis=None):
        return Verdict(claim, None, "a cell has no member that finished")
    steps = means.diff().iloc[1:]
    rising = [(heads, length) for heads, row in steps.iterrows() for length, up in row.items() if up > LEARNT]
    held = f"{steps.size - len(rising)} of {steps.size} steps"
    named = ", ".join(f"to h = {heads} at T = {length}" for heads, length in rising[:6])
    return Verdict(claim, not rising, f"{held}; not {named}" if rising else held)


def falls_with_length(frame: pd.DataFrame) -> Verdict:
    """With few heads, the slope of log(share wrong) on log(T) is above 0."""
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
        slope, low, high = slope_interval(lengths, groups)
        told.append(f"h = {heads}: slope {slope:.2f} ({low:.2f} to {high:.2f})")
        holds.append(low > 0)
    return Verdict(claim, all(holds) if holds else None, ", ".join(told))


def where_length_fades(frame: pd.DataFrame) -> Verdict:
    """The number of heads at which the gap between the shortest and the longest falls below a tenth."""
    claim = "the dependence on T fades as h grows"
    lengths = sorted(frame["length"].unique())
    cells = {
        (heads, length): cell["train_error"].dropna().to_numpy()
        for (heads, length), cell in frame.groupby(["heads", "length"])
    }
    heads = np.array(sorted(frame["heads"].unique()), float)
    ends = [[cells.get((h, T), np.empty(0)) for h in heads] for T in (lengths[0], lengths[-1])]
    if len(lengths) < 2 or any(not len(seeds) for end in ends for seeds in end):
        return Verdict(claim, None, "needs two lengths and a member of each cell that finished")
    random = np.random.default_rng(0)
    gaps = np.array([long.mean() - short.mean() for short, long in zip(*ends, strict=True)])
    found = faded(heads, gaps)
    drawn = [
        faded(
            heads,
            np.array(
                [
                    random.choice(long, len(long)).mean() - random.choice(short, len(short)).mean()
                    for short, long in zip(*ends, strict=True)
                ]
            ),
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.quantile(drawn, [0.025, 0.975], method="inverted_cdf")
    points = ", ".join(f"h = {h:g}: {100 * gap:.1f}" for h, gap in zip(heads, gaps, strict=True))
    where = f"below a tenth of its largest from h = {found:.1f} on ({low:.1f} to {high:.1f} over seeds)"
    where = where if np.isfinite(found) else "not below a tenth of its largest at any h"
    told = f"points of accuracy between T = {lengths[0]} and {lengths[-1]}: {points}; {where}"
    return Verdict(claim, bool(np.isfinite(found)), told)


def faded(heads: Float[np.ndarray, " heads"], gaps: Float[np.ndarray, " heads"]) -> float:
    """The first h, between the measured ones by a line, from which on all gaps are below a tenth; or ∞.

    >>> faded(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.25, 0.0]))
    3.6
    """
    limit = FADED * gaps.max()
    above = np.flatnonzero(gaps > limit)
    if gaps.max() <= 0:
        return float(heads[0])
    last = int(above[-1])
    if last == len(heads) - 1:
        return float("inf")
    share = (gaps[last] - limit) / (gaps[last] - gaps[last + 1])
    return float(heads[last] + share * (heads[last + 1] - heads[last]))


def paper_s_law(frame: pd.DataFrame) -> Verdict:
    """1 − accuracy ≈ c · T^b · exp(a · h / T^delta), with the paper's delta and with one of our own."""
    delta = LAW["delta"]
    claim = f"1 − accuracy follows c · T^b · exp(a · h / T^{delta:g}), the paper's law"
    cells = [cell for _, cell in frame.dropna(subset="train_error").groupby(["heads", "length"])]
    groups = [cell for cell in cells if cell["train_error"].mean() >= LEARNT]
    if len(groups) < 6 or len({cell["length"].iloc[0] for cell in groups}) < 2:
        still = f"only {len(groups)} of {len(cells)} cells still err"
        return Verdict(claim, None, f"needs six cells and two lengths at which something is wrong: {still}")
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
        f"{numbers} over the {len(groups)} of {len(cells)} cells in which something is wrong; "
        f"the paper has a = {LAW['a']:.2f}; it leaves {law.unexplained:.0%} of the variance of "
        f"log errors; with delta free it is {free.delta:.2f} ({of_free[0]:.2f} to {of_free[1]:.2f}), "
        f"{free.unexplained:.0%} left"
    )
    return Verdict(claim, law.unexplained < 0.1, told)


def reversal(frame: pd.DataFrame, paper: Cells) -> Iterator[Verdict]:
    """The first h with a positive reversal score, by the paper's numbers and by ours."""
    means = _means(frame)
    ours = {
        (int(heads), int(length)): float(means.loc[heads, length])
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


def follows(frame: pd.DataFrame, *, width_fixed: str, heads_fixed: str) -> Iterator[Verdict]:
    """Whether the training error follows the heads at one width, or the width at one number of heads."""
    spans = {}
    for variant, axis in ((width_fixed, "heads"), (heads_fixed, "width")):
        members = frame[frame["variant"] == variant]
        claim = f"{variant}: training accuracy rises along the way, at every T"
        means = members.pivot_table(index=axis, columns="length", values="train_error")
        means = means.dropna(axis="columns")  # a length of which only a part is trained
        if len(means) < 2 or means.empty:
            yield Verdict(claim, None, "not trained")
            continue
        gains = 100 * (means.iloc[0] - means.iloc[-1])
        spans[axis] = float(gains.mean())
        ends = f"{axis} {means.index[0]} to {means.index[-1]}"
        told = ", ".join(f"T = {length}: {gain:+.1f} points" for length, gain in gains.items())
        yield Verdict(claim, bool((gains > 0).all()), f"{ends}: {told}")
    claim = "accuracy follows the heads and not the width that grows with them"
    if len(spans) < 2:
        yield Verdict(claim, None, "needs both controls")
        return
    told = f"{spans['heads']:+.1f} points by heads at one width, {spans['width']:+.1f} by width at one h"
    yield Verdict(claim, spans["heads"] > spans["width"], told)


def tokens_that_matter(frame: pd.DataFrame) -> Verdict:
    """How many candidates, or patches, move the right answer's score by a fair part of the most."""
    claim = "the more tokens there are, the more of them matter to the right answer"
    found = _scored(frame, "tokens_that_matter").groupby("length")["score"]
    told = ", ".join(f"T = {length}: {few.min():.0f} to {few.max():.0f}" for length, few in found)
    means = found.mean()
    holds = bool((means.diff().iloc[1:] > 0).all()) if len(means) > 1 else None
    return Verdict(claim, holds, f"{told}, over all members")


def reciprocal_rank(frame: pd.DataFrame) -> Iterator[Verdict]:
    """The mean reciprocal rank of the positive among validation candidates, where there are candidates."""
    found = _scored(frame, "validation_mrr")
    if found.empty:
        return
    means = found.pivot_table(index="heads", columns="length", values="score")
    told = ", ".join(
        f"T = {length}: {column.iloc[0]:.2f} with h = {column.index[0]}, at best {column.max():.2f} with h = "
        f"{column.idxmax()}, {column.iloc[-1]:.2f} with h = {column.index[-1]}"
        for length, column in means.items()
    )
    most = bool((means.idxmax() == means.index[-1]).all())
    yield Verdict("the mean reciprocal rank on validation lists is best with the most heads", most, told)


def _scored(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """The members of which this was measured, with `score`."""
    scores = [json.loads(text).get(name, np.nan) for text in frame["scores"]]
    return frame.assign(score=scores).dropna(subset="score")


def beside_the_grid(frame: pd.DataFrame, *, grid: str, others: Sequence[str]) -> Iterator[Verdict]:
    """Whether cells that were also trained in another way are as accurate as those of the grid."""
    for variant in others:
        for (heads, length), members in frame[frame["variant"] == variant].groupby(["heads", "length"]):
            of_grid = (frame["variant"] == grid) & (frame["heads"] == heads) & (frame["length"] == length)
            claim = f"{variant}, h = {heads} and T = {length} are as accurate as in the grid, within a point"
            told, moved = [], []
            for split in ("train", "validation"):
                there, here = (rows[f"{split}_error"].dropna() for rows in (frame[of_grid], members))
                if there.empty or here.empty:
                    break
                moved.append(100 * abs(here.mean() - there.mean()))
                shares = [
                    f"{100 * (1 - side.mean()):.1f}% ± {100 * side.std():.1f}" for side in (here, there)
                ]
                told.append(f"{split} {shares[0]} against {shares[1]}")
            if len(told) < 2:
                yield Verdict(claim, None, "a cell has no member that finished")
            else:
                yield Verdict(claim, bool(max(moved) <= 1), f"{', '.join(told)}; ± over {len(members)} seeds")


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot_table(index="heads", columns="length", values="train_error")
