"""The number of heads from which accuracy no longer depends on the length of a sequence."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.reproduce.claims import Verdict
from headcount.reproduce.paper import Cells
from headcount.reproduce.real.noise import LEARNT, allowed, noise_of
from headcount.results.bootstrap import resampled

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
