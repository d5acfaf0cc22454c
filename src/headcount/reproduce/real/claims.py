"""The paper's claims about accuracy on real data, over heads and lengths, tested on our numbers."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.reproduce.claims import Cells, Group, Verdict, log_slope, reversal_score
from headcount.results.intervals import Estimated, contrast, difference, significant

LEARNT = 1e-3  # a smaller share, or difference of shares, counts as none


def beyond(found: Estimated) -> int:
    """1 or -1 where a difference of shares is significant at 5% and not next to nothing, else 0."""
    return found.sign if abs(found.value) > LEARNT else 0


def worse_again(errors: Sequence[Group]) -> list[bool]:
    """For each step from one group to the next, whether the error rises: at 5% for all of them, by Holm."""
    steps = [difference(after, before) for before, after in pairwise(errors)]
    held = significant([step.p for step in steps])
    return [real and step.value > LEARNT for real, step in zip(held, steps, strict=True)]


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
    """At each T the error falls from the first to the last head count, and rises at none between."""
    claim = "training accuracy rises with h, at every T"
    cells = cells_of(frame)
    heads, lengths = sorted({h for h, _ in cells}), sorted({T for _, T in cells})
    if len(heads) < 2 or any(not len(cells.get((h, T), ())) for h in heads for T in lengths):
        return Verdict(claim, None, "needs two head counts and a finished member in each cell")
    steps = {
        (after, T): difference(cells[after, T], cells[before, T])
        for before, after in pairwise(heads)
        for T in lengths
    }
    improve = sum(beyond(step) < 0 for step in steps.values())
    held = f"{improve} of {len(steps)} steps improve at 5%"
    real = significant([step.p for step in steps.values()])  # of all steps together
    worse = [cell for cell, found in zip(steps, real, strict=True) if found and steps[cell].value > LEARNT]
    if worse:
        named = ", ".join(f"to h = {after} at T = {length}" for after, length in worse[:6])
        return Verdict(claim, False, f"{held}; worse {named}")
    held += ", none is significantly worse"
    ends = {T: difference(cells[heads[0], T], cells[heads[-1], T]) for T in lengths}
    if all(cells[heads[0], T].mean() < LEARNT for T in lengths):
        return Verdict(claim, None, f"{held}; nothing left to learn")
    same = [str(T) for T in lengths if cells[heads[0], T].mean() >= LEARNT and beyond(ends[T]) <= 0]
    if same:
        return Verdict(
            claim, None, f"{held}; no significant gain from the first to the last at T = {', '.join(same)}"
        )
    return Verdict(claim, True, f"{held}; the last is significantly better than the first at every T")


def cells_of(frame: pd.DataFrame) -> dict[tuple[int, int], Group]:
    """The training errors of every cell over its seeds."""
    cells: dict[tuple[int, int], Group] = {}
    for heads in sorted(map(int, frame["heads"].unique())):
        for length, members in frame[frame["heads"] == heads].groupby("length"):
            cells[heads, int(str(length))] = members["train_error"].dropna().to_numpy(float)
    return cells


def falls_with_length(frame: pd.DataFrame) -> Verdict:
    """With few heads, the slope of log(share wrong) on log(T) over seeds is above 0, or all is learnt."""
    claim = f"with up to {FEW} heads, training accuracy falls with T wherever not nearly all is learnt"
    evidence, holds = [], []
    for heads, members in frame[frame["heads"] <= FEW].groupby("heads"):
        groups = [cell["train_error"].dropna().to_numpy() for _, cell in members.groupby("length")]
        lengths = np.array(sorted(members["length"].unique()), float)
        if len(lengths) < 2 or min(map(len, groups)) < 2:
            return Verdict(claim, None, "needs two lengths and two finished members at each")
        if max(map(np.mean, groups)) < LEARNT:
            evidence.append(f"h = {heads}: nearly all is learnt")
            continue
        found = log_slope(lengths, groups, floor=MIN_WRONG)
        evidence.append(f"h = {heads}: slope {found}")
        holds.append(found.sign > 0 if found.sign else None)
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


FADED = 0.1  # of the largest gap between lengths: below that, length no longer matters


def where_length_fades(frame: pd.DataFrame, paper: Cells) -> Verdict:
    """The number of heads from which the gap between the shortest and the longest T is small."""
    claim = "the dependence on T, in points of accuracy, fades as h grows"
    cells, lengths = cells_of(frame), sorted(frame["length"].unique())
    heads = sorted({h for h, _ in cells})
    ends = {h: [cells.get((h, T), np.empty(0)) for T in (*lengths[:1], *lengths[-1:])] for h in heads}
    if len(lengths) < 2 or any(not len(seeds) for end in ends.values() for seeds in end):
        return Verdict(claim, None, "needs two lengths and a finished member in each cell")
    points = ", ".join(
        f"h = {h}: {100 * (long.mean() - short.mean()):.1f}{_times(short.mean(), long.mean())}"
        for h, (short, long) in ends.items()
    )
    evidence = f"gap in points (and ratio of errors) from T = {lengths[0]} to {lengths[-1]}: {points}; "
    gaps = {h: difference(long, short) for h, (short, long) in ends.items()}
    real = significant([gap.p for gap in gaps.values()])
    if not any(found and gap.value > LEARNT for found, gap in zip(real, gaps.values(), strict=True)):
        return Verdict(claim, None, f"{evidence}no gap is significant at any h")
    found, of_paper = (
        faded(heads, np.array([gap.value for gap in gaps.values()])),
        _of_paper(heads, lengths, paper),
    )
    if found is None:
        return Verdict(claim, False, f"{evidence}never below a tenth of the largest gap{of_paper}")
    evidence += f"below a tenth of the largest gap for h ≥ {found}"
    low, high = fading_interval(ends)
    if high is None:
        return Verdict(claim, None, f"{evidence}, but with 95% confidence at no trained h{of_paper}")
    span = f"h = {low} alone" if low == high else f"h = {low} to {high}"
    return Verdict(claim, True, f"{evidence} (95% interval, of trained head counts: {span}){of_paper}")


def fading_interval(ends: Mapping[int, Sequence[Group]]) -> tuple[int, int | None]:
    """Between which head counts the gap falls below a tenth of the largest for good: a 95% interval.

    Not yet faded where gap(h) − gap(largest) / 10 is significantly above 0, at 2.5% for all h together;
    faded from where it and all after it are significantly below, at 2.5%, if anywhere.
    """
    heads = list(ends)
    largest = max(heads, key=lambda h: ends[h][1].mean() - ends[h][0].mean())
    rest = [
        contrast((*ends[h], *ends[largest]), (-1.0, 1.0, FADED, -FADED))
        if h != largest
        else contrast(ends[h], (FADED - 1, 1 - FADED))
        for h in heads
    ]
    held = significant([one.p for one in rest], alpha=0.05)  # two-sided p: half of it to either side
    above = [found and one.value > 0 for found, one in zip(held, rest, strict=True)]
    below = [one.sign < 0 for one in rest]
    first = max((place + 1 for place, one in enumerate(above) if one), default=0)
    last = max((place + 1 for place, one in enumerate(below) if not one), default=0)
    return heads[min(first, len(heads) - 1)], heads[last] if last < len(heads) else None


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
