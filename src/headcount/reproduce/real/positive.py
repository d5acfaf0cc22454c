"""Whether heads that a planted retrieval needs show in the share of wrong answers."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from headcount.reproduce.claims import Group, Verdict
from headcount.results.intervals import Estimated, contrast, difference, significant, spanning

TWICE = np.log(2.0)
LEARNS = 0.5  # a larger share wrong with all the heads that are needed says nothing of fewer
MIN_WRONG = 1e-4  # a smaller share is taken for this: its logarithm is that of a handful of samples


def falls_most(where: str, wrong: Mapping[int, Group], *, at: int) -> Verdict:
    """Whether the mean log of the share wrong falls more to h = D than to any other head count."""
    claim = f"{where}: from one h to the next, the share wrong falls most to h = {at}"
    heads, evidence = sorted(wrong), _listed(wrong)
    if at not in heads[1:] or min(map(len, wrong.values())) < 2:
        return Verdict(claim, None, f"needs h = {at}, one before it and two seeds of each{evidence}")
    logs = logs_of(wrong)
    steps = {after: _less(logs[before], logs[after]) for before, after in pairwise(heads)}
    ahead = {after: _ahead(logs, at, after) for after in steps if after != at}
    held = significant([one.p for one in ahead.values()])
    signs = [int(np.sign(one.value)) if real else 0 for real, one in zip(held, ahead.values(), strict=True)]
    verdict = True if min(signs) > 0 else False if min(signs) < 0 else None
    folds = ", ".join(
        f"to h = {after} {np.exp(step.value):.2f}-fold ({np.exp(step.interval[0]):.2f} to "
        f"{np.exp(step.interval[1]):.2f}{step.note})"
        for after, step in steps.items()
    )
    return Verdict(claim, verdict, f"falls, by the geometric mean over seeds: {folds}{evidence}")


def as_well_as(where: str, wrong: Mapping[int, Group], *, few: int, many: int) -> Verdict:
    """Whether the share wrong with few heads is at most twice that with many, beyond noise."""
    claim = f"{where}: h = {few} does as well as {many}, within a factor of 2"
    if any(len(wrong.get(heads, ())) < 2 for heads in (few, many)):
        return Verdict(claim, None, f"needs h = {few} and {many} and two seeds of each")
    if wrong[many].mean() > LEARNS:
        return Verdict(claim, None, f"more than {LEARNS:.0%} is wrong with h = {many}{_listed(wrong)}")
    logs = logs_of(wrong)
    found = _less(logs[few], logs[many])
    low, high = found.interval
    verdict = True if high < TWICE else False if low > TWICE else None
    ratio = f"{np.exp(found.value):.2f} times ({np.exp(low):.2f} to {np.exp(high):.2f}{found.note})"
    return Verdict(claim, verdict, f"{ratio} as many wrong, by the geometric mean over seeds{_listed(wrong)}")


def logs_of(wrong: Mapping[int, Group]) -> dict[int, Group]:
    """The logarithms of shares."""
    return {heads: np.log(np.maximum(errors, MIN_WRONG)) for heads, errors in wrong.items()}


def _less(one: Group, other: Group) -> Estimated:
    """How much less the other is, by the seeds of both that are not stuck."""
    return spanning((one, other), lambda pair: difference(*pair))


def _ahead(logs: Mapping[int, Group], at: int, other: int) -> Estimated:
    """How much more the log falls to `at` than to `other`; a head count in both steps counts once."""
    heads, weights = sorted(logs), defaultdict[int, float](float)
    for step, sign in ((at, 1.0), (other, -1.0)):
        weights[heads[heads.index(step) - 1]] += sign
        weights[step] -= sign
    used = [place for place, weight in weights.items() if weight]
    scales = [weights[place] for place in used]
    return spanning([logs[place] for place in used], lambda groups: contrast(groups, scales))


def _listed(wrong: Mapping[int, Group]) -> str:
    shares = ", ".join(f"h = {heads}: {errors.mean():.1%}" for heads, errors in sorted(wrong.items()))
    seeds = min(map(len, wrong.values()), default=0)
    return f"; wrong on average over {seeds} seeds: {shares}"
