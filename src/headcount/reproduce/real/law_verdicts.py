"""Whether errors on real data follow the law that the paper fits to its own."""

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Verdict
from headcount.reproduce.paper import Cells
from headcount.reproduce.real.law import delta_interval, fit_law, law_intervals
from headcount.reproduce.real.noise import LEARNT
from headcount.reproduce.real.paper import DELTA

MIN_CELLS = 8  # to fit a law of three numbers to
MAX_UNEXPLAINED = 0.1  # of the variance of log errors


def follows_the_law(frame: pd.DataFrame, paper: Cells) -> Verdict:
    """1 − accuracy ≈ c · T^b · exp(a · h / T^delta), with the paper's delta and with a fitted one.

    It holds if it explains the errors, and better than delta = 0 does, and if the interval of its exponent
    contains that of the paper's own numbers in the same cells.
    """
    claim = f"1 − accuracy follows c · T^b · exp(a · h / T^{DELTA:g}), the paper's law, with its exponent"
    errors = frame.dropna(subset="train_error").groupby(["heads", "length"])["train_error"].mean()
    ours = errors[errors >= LEARNT]
    still = f"{len(ours)} of {len(errors)} cells in which more than {LEARNT:.1%} is wrong"
    if _too_few(ours):
        return Verdict(claim, None, f"needs {MIN_CELLS} such cells and two lengths: {still}")
    heads, lengths, wrong = _columns(ours)
    law, free, none = (fit_law(heads, lengths, wrong, delta=chosen) for chosen in (DELTA, None, 0.0))
    ends, of_delta = law_intervals(heads, lengths, wrong, delta=DELTA), delta_interval(heads, lengths, wrong)
    numbers = ", ".join(
        f"{name} = {getattr(law, name):.2g} ({ends[name][0]:.2g} to {ends[name][1]:.2g})" for name in "abc"
    )
    evidence = (
        f"{numbers} over {still}; unexplained: {law.unexplained:.0%} of the variance of log errors, "
        f"with delta = 0 {none.unexplained:.0%}; fitted, delta is {free.delta:.2f} "
        f"({of_delta[0]:.2f} to {of_delta[1]:.2f}), {free.unexplained:.0%} unexplained"
    )
    theirs = pd.Series({cell: paper[cell] for cell in ours.index if paper.get(cell, 0) >= LEARNT})
    if _too_few(theirs):
        return Verdict(claim, None, f"{evidence}; the paper has {len(theirs)} of these cells")
    of_paper = fit_law(*_columns(theirs), delta=DELTA)
    low, high = ends["a"]
    holds = law.unexplained < min(MAX_UNEXPLAINED, none.unexplained) and low <= of_paper.a <= high
    theirs_left = f"a = {of_paper.a:.2g}, {of_paper.unexplained:.0%} unexplained"
    evidence += f"; the paper's numbers in these cells have {theirs_left}"
    return Verdict(claim, bool(holds), evidence)


def _too_few(cells: "pd.Series[float]") -> bool:
    return len(cells) < MIN_CELLS or len({length for _, length in cells.index}) < 2


def _columns(cells: "pd.Series[float]") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Heads, lengths and errors of cells."""
    heads, lengths = (np.array(axis, float) for axis in zip(*cells.index, strict=True))
    return heads, lengths, cells.to_numpy(float)
