"""Whether what is seen after 5 or 10% of a training foretells which head counts are best at its end.

Four things are looked at early, each held against validation errors at the end:

- the order of head counts by validation error, pair by pair;
- the smallest head count that no larger one improves on, by the same rule early and at the end;
- the same by the distance between answers to training samples, of which sketches are compared: how far those
  of a head count lie from those with the most heads, and these from each other;
- salience: the number of tokens that matter to a model with the most heads.

Early numbers are taken at the rate that is best early, final ones at the rate that is best at the end.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.reproduce.claims import Group, Verdict
from headcount.reproduce.real.claims import LEARNT
from headcount.reproduce.real.training import LOOKS, SKETCH
from headcount.reproduce.real.tuned import at_best_rates, tuned_cells
from headcount.results.intervals import contrast, difference, significant

FINAL = "validation_error"
NONE_BETTER = "at the end no head count is significantly better than the fewest heads"


def early_verdicts(variant: str, members: pd.DataFrame) -> Iterator[Verdict]:
    """What each look foretells of the end, over head counts of one length."""
    final = tuned_cells(members, "heads", column=FINAL)
    for share in LOOKS:
        look = f"early_{100 * share:g}_"
        when = f"{variant}: after {share:.0%} of the training"
        if look + FINAL not in members or members[look + FINAL].isna().any():
            yield Verdict(f"{when} the order of head counts is that at the end", None, "not looked at")
            continue
        if len(final) < 2 or min(map(len, final.values())) < 2:
            yield Verdict(
                f"{when} the order of head counts is that at the end", None, "needs two seeds of two"
            )
            continue
        early = tuned_cells(members, "heads", column=look + FINAL)
        yield same_order(
            f"{when} the order of head counts by validation error is that at the end", early, final
        )
        yield same_enough(
            f"{when} as many heads are enough by validation error as at the end", enough(early), final
        )
        apart = distances(members, look)
        claim = f"{when} as many heads are enough by the distance of answers as by error at the end"
        yield same_enough(claim, enough(apart), final)
        yield salient(
            f"{when} as many tokens matter to the most heads as heads are enough at the end",
            members,
            look,
            final,
        )


def same_order(claim: str, early: Mapping[int, Group], final: Mapping[int, Group]) -> Verdict:
    """Of the pairs that differ at the end, by Holm at 5%, how many differ early, each at 5%."""
    pairs = list(combinations(sorted(final), 2))
    ends = [difference(final[one], final[other]) for one, other in pairs]
    differ = [
        (pair, int(np.sign(end.value)))
        for pair, end, real in zip(pairs, ends, significant([end.p for end in ends]), strict=True)
        if real and abs(end.value) > LEARNT
    ]
    signs = [sign * difference(early[one], early[other]).sign for (one, other), sign in differ]
    same, opposite = signs.count(1), signs.count(-1)
    evidence = (
        f"of {len(differ)} pairs that differ at the end, {same} are ordered so early, {opposite} the other "
        f"way round, {signs.count(0)} undecided; early {_listed(early)}; "
        f"at the end {_listed(final)}"
    )
    verdict = None if not differ else False if opposite else True if same == len(differ) else None
    return Verdict(claim, verdict, evidence)


def same_enough(claim: str, early: int, final: Mapping[int, Group]) -> Verdict:
    """Whether an early look names the head count that is enough at the end."""
    at_end, seeds = enough(final), min(map(len, final.values()))
    if at_end == min(final):
        return Verdict(claim, None, NONE_BETTER)
    evidence = (
        f"h = {early} early, h = {at_end} at the end, of {', '.join(map(str, sorted(final)))}, by Welch's t "
        f"at 5% against all larger ones together; {seeds} seeds"
    )
    if at_end == max(final):
        evidence += "; more might be better still"
    unclear = (
        early > at_end and final[early].mean() < final[at_end].mean()
    )  # better, though not significantly
    return Verdict(claim, None if unclear else early == at_end, evidence)


def enough(errors: Mapping[int, Group]) -> int:
    """The smallest head count that no larger one is better than, at 5% for all larger ones together.

    >>> few, many = np.array([0.9, 0.91, 0.92]), np.array([0.1, 0.12, 0.11])
    >>> enough({1: few, 2: many, 4: many})
    2
    """
    heads = sorted(errors)
    for place, count in enumerate(heads):
        gains = [difference(errors[count], errors[more]) for more in heads[place + 1 :]]
        held = significant([gain.p for gain in gains]) if gains else []
        if not any(real and gain.value > LEARNT for real, gain in zip(held, gains, strict=True)):
            return count
    return heads[-1]


def distances(members: pd.DataFrame, look: str = "") -> dict[int, Group]:
    """For each member, the mean distance of its answers from those of other members with the most heads.

    All are held against the same few members, so that tests between head counts are rough.
    """
    names = [f"{look}sketch_{place}" for place in range(SKETCH)]
    rows = at_best_rates(members, look + FINAL)
    points: dict[int, Float[np.ndarray, "seed number"]] = {
        heads: rows[rows["heads"] == heads][names].to_numpy(float)
        for heads in map(int, rows["heads"].unique())
    }
    most = max(points)
    found = {}
    for heads, mine in points.items():
        apart = np.linalg.norm(mine[:, None] - points[most][None], axis=2)
        if heads == most:  # not from itself
            apart = apart[~np.eye(len(mine), dtype=bool)].reshape(len(mine), -1)
        found[heads] = apart.mean(axis=1)
    return found


def salient(claim: str, members: pd.DataFrame, look: str, final: Mapping[int, Group]) -> Verdict:
    """Whether the number of tokens that matter, on average over seeds, is that of heads that are enough."""
    rows = at_best_rates(members, look + FINAL)
    rows = rows[rows["heads"] == rows["heads"].max()]
    counted = contrast((rows[f"{look}tokens_that_matter"].to_numpy(float),), (1.0,))
    low, high = counted.interval
    at_end = enough(final)
    if at_end == min(final):
        return Verdict(claim, None, NONE_BETTER)
    evidence = (
        f"{counted.value:.1f} tokens ({low:.1f} to {high:.1f}) of {len(rows)} seeds; h = {at_end} is enough"
    )
    return Verdict(claim, low <= at_end <= high, evidence)


def _listed(errors: Mapping[int, Group]) -> str:
    return ", ".join(f"h = {heads}: {group.mean():.1%}" for heads, group in sorted(errors.items()))
