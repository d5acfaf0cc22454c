"""Verdicts on heads, the size of a head and width, each alone, and on what attention adds at all.

Statistics: means over seeds of the share that is wrong, at the rate that suits their width (`tuned.py`);
differences by Welch's t, at 95%, over trainings and not over data sets.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Group, Verdict
from headcount.reproduce.real.apart import (
    ALONE,
    APART,
    EVENLY,
    HARDEST,
    MEAN,
    PLANTED,
    PLANTED_DEEP,
    SWEEP,
)
from headcount.reproduce.real.claims import LEARNT
from headcount.reproduce.real.early import early_verdicts
from headcount.reproduce.real.planted_lists import D
from headcount.reproduce.real.positive import as_well_as, falls_most
from headcount.reproduce.real.tuned import at_best_rates, tuned_cells, with_scores
from headcount.reproduce.real.variants import GRID
from headcount.results.intervals import Estimated, contrast, difference, significant

SPLITS = {"training": "train_error", "validation": "validation_error"}
RATES_INSIDE = "each width has its best rate inside those tried"
MOSTLY = "the width between layers adds more training accuracy than heads of one size do"
Cells = Mapping[Any, Group]
Step = tuple[str, Group, Group]  # where, and the errors before and after


def apart_verdicts(frame: pd.DataFrame) -> list[Verdict]:
    """All of them, from the rows of one data set; what was not trained is said to be so."""
    if frame.empty:
        return [Verdict(MOSTLY, None, "not trained yet")]
    frame = with_scores(frame)
    part = dict(iter(frame.groupby("variant")))
    verdicts = []
    if APART in part:
        verdicts += [mostly_width(part[APART]), *effects(part[APART]), inside(part[APART])]
        verdicts += [
            verdict for variant in (MEAN, ALONE) if variant in part for verdict in beside(part, variant)
        ]
    if {HARDEST, EVENLY} <= part.keys():
        verdicts += one_difficulty(part[HARDEST], part[EVENLY])
    if PLANTED in part:
        errors = tuned_cells(part[PLANTED], "heads", column="validation_error")
        verdicts.append(falls_most(PLANTED, errors, at=D))
    if PLANTED_DEEP in part:
        errors = tuned_cells(part[PLANTED_DEEP], "heads", column="validation_error")
        verdicts.append(as_well_as(PLANTED_DEEP, errors, few=1, many=D))
    for variant in (SWEEP, GRID, PLANTED):
        if variant in part:
            verdicts += early_verdicts(variant, part[variant])
    return verdicts


def corners_of(members: pd.DataFrame, column: str = "train_error") -> dict[tuple[int, int, int], Group]:
    """The errors by width, heads and size."""
    return tuned_cells(members, "width", "heads", "head_dim", column=column)


def sizes(members: pd.DataFrame) -> tuple[int, int, int, int, int]:
    """The narrow and the wide width, few and many heads, and the size of a head in the grid."""
    few, many = int(members["heads"].min()), int(members["heads"].max())
    narrow, wide = int(members["width"].min()), int(members["width"].max())
    return narrow, wide, few, many, narrow // few


def mostly_width(members: pd.DataFrame) -> Verdict:
    """Which of two corners is ahead: the narrow one with many heads, or the wide one with few.

    Half their difference is also the mean effect of width less that of heads, over both levels of the other.
    """
    narrow, wide, few, many, size = sizes(members)
    wrong = corners_of(members)
    places = [(narrow, few, size), (narrow, many, size), (wide, few, size), (wide, many, size)]
    if any(len(wrong.get(place, ())) < 2 for place in places):
        return Verdict(MOSTLY, None, "needs two seeds in each corner")
    neither, heads, width, both = (wrong[place] for place in places)
    ahead = difference(heads, width)
    evidence = (
        f"T = {members['length'].iloc[0]}, {len(neither)} seeds, from h = {few}, E = {narrow} to h = {many}, "
        f"E = {wide}, all heads of {size} numbers: {_share(neither)} wrong, {_share(heads)} by heads alone, "
        f"{_share(width)} by width alone, {_share(both)} by both; width is ahead by {points(ahead)}"
    )
    return Verdict(MOSTLY, ahead.sign > 0 if _tells(ahead) else None, evidence)


def effects(members: pd.DataFrame) -> Iterator[Verdict]:
    """What each adds with the others kept: heads, their size, heads for size, and width."""
    narrow, wide, few, many, size = sizes(members)
    large, small = size * many // few, size * few // many
    settings = ((few, size), (many, size), (many, small), (few, large))
    paths = {
        f"{many} heads for {few}, each of {size} numbers": [
            (f"E = {width}", (width, few, size), (width, many, size)) for width in (narrow, wide)
        ],
        f"{large} numbers for {size} in {few} head": [
            (f"E = {width}", (width, few, size), (width, few, large)) for width in (narrow, wide)
        ],
        f"{many} heads for {few}, of as many numbers together": [
            (f"E = {width}, n·h = {inner}", (width, few, inner // few), (width, many, inner // many))
            for width, inner in product((narrow, wide), (few * size, few * large))
        ],
        f"a width of {wide} for {narrow}, of tokens and (4E) of the feed-forward": [
            (f"h = {heads}, n = {each}", (narrow, heads, each), (wide, heads, each))
            for heads, each in settings
        ],
    }
    for (what, places), (split, column) in product(paths.items(), SPLITS.items()):
        wrong = corners_of(members, column)
        steps = [
            (where, wrong[before], wrong[after])
            for where, before, after in places
            if before in wrong and after in wrong
        ]
        yield gained(f"{what}: {split} accuracy rises", steps, wanted=len(places))


def gained(claim: str, steps: Sequence[Step], *, wanted: int) -> Verdict:
    """Whether fewer are wrong after each step: at 5% for all of them together, by Holm."""
    if len(steps) < wanted or any(min(len(before), len(after)) < 2 for _, before, after in steps):
        return Verdict(claim, None, "needs two seeds in each cell")
    found = [difference(before, after) for _, before, after in steps]
    held = significant([one.p for one in found])
    signs = [
        int(np.sign(one.value)) if real and abs(one.value) > LEARNT else 0
        for real, one in zip(held, found, strict=True)
    ]
    verdict = True if min(signs) > 0 else False if min(signs) < 0 else None
    evidence = "; ".join(
        f"{where}: {_share(before)} → {_share(after)} wrong, {points(one)}"
        for (where, before, after), one in zip(steps, found, strict=True)
    )
    return Verdict(claim, verdict, evidence)


def inside(members: pd.DataFrame) -> Verdict:
    """Whether no width would rather have had a smaller or a larger rate than those tried."""
    chosen = at_best_rates(members).groupby("width")["learning_rate"].first()
    tried = members.groupby("width")["learning_rate"]
    at_edge = bool(((chosen == tried.min()) | (chosen == tried.max())).any())
    evidence = "; ".join(
        f"E = {width}: {chosen[width]:g} of {', '.join(f'{rate:g}' for rate in sorted(set(rates)))}"
        for width, rates in tried
    )
    return Verdict(RATES_INSIDE, not at_edge, evidence)


def beside(part: Mapping[Any, pd.DataFrame], variant: str) -> Iterator[Verdict]:
    """What attention adds to a model of the same width in which something else stands for it."""
    narrow, wide, few, many, size = sizes(part[APART])
    for split, column in SPLITS.items():
        without, wrong = tuned_cells(part[variant], "width", column=column), corners_of(part[APART], column)
        steps = [
            (f"E = {width}, h = {heads}", without[width], wrong[width, heads, size])
            for width, heads in product((narrow, wide), (few, many))
            if width in without and (width, heads, size) in wrong
        ]
        yield gained(f"attention in place of this, {variant}: {split} accuracy rises", steps, wanted=4)


def one_difficulty(hardest: pd.DataFrame, evenly: pd.DataFrame) -> Iterator[Verdict]:
    """Whether longer lists are harder where their negatives are not easier, and by how much more."""
    short, long = int(evenly["length"].min()), int(evenly["length"].max())
    lists = {EVENLY: evenly, HARDEST: hardest}
    wrong = {name: tuned_cells(rows, "width", "heads", "length") for name, rows in lists.items()}
    places = sorted({(width, heads) for width, heads, _ in wrong[EVENLY]})
    for name, cells in wrong.items():
        steps = [
            (f"h = {heads}, E = {width}", cells[width, heads, long], cells[width, heads, short])
            for width, heads in places
            if {(width, heads, long), (width, heads, short)} <= cells.keys()
        ]
        claim = f"{name}: training accuracy is lower at T = {long} than at {short}"
        yield gained(claim, steps, wanted=len(places))
    claim = f"training accuracy falls more with T, from {short} to {long}, if negatives keep their difficulty"
    found = []
    for width, heads in places:
        groups = [wrong[name].get((width, heads, T), np.empty(0)) for name in lists for T in (long, short)]
        if min(map(len, groups)) < 2:
            yield Verdict(claim, None, "needs two seeds in each cell")
            return
        found.append((f"h = {heads}, E = {width}", more_of_a_fall(*groups)))
    signs = [one.sign if _tells(one) else 0 for _, one in found]
    verdict = True if min(signs) > 0 else False if min(signs) < 0 else None
    yield Verdict(claim, verdict, "; ".join(f"{where}: {points(one)} more" for where, one in found))


def more_of_a_fall(even_long: Group, even_short: Group, hard_long: Group, hard_short: Group) -> Estimated:
    """By how much more the first rises from its short lists to its long ones than the second.

    Lists of all negatives there are belong to both: such members cancel and add no variance.
    """
    if np.array_equal(np.sort(even_long), np.sort(hard_long)):
        return difference(hard_short, even_short)
    return contrast((even_long, even_short, hard_long, hard_short), (1.0, -1.0, -1.0, 1.0))


def points(found: Estimated) -> str:
    """A difference of shares in points, with its 95% interval."""
    low, high = (100 * end for end in found.interval)
    return f"{100 * found.value:z.1f} points ({low:z.1f} to {high:z.1f})"


def _tells(found: Estimated) -> bool:
    return bool(found.sign) and abs(found.value) > LEARNT


def _share(errors: Group) -> str:
    return f"{errors.mean():.2%}"
