"""The law that the paper fits to its real-data errors: 1 − accuracy ≈ c · T^b · exp(a · h / T^delta)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.optimize import least_squares
from scipy.stats import f

from headcount.reproduce.claims import Cells, Verdict
from headcount.reproduce.real.claims import LEARNT
from headcount.reproduce.real.paper import DELTA
from headcount.results.intervals import regression
from headcount.results.numbers import short

PerCell = Float[np.ndarray, " cell"]
DELTAS = (0.0, 1.0)


@dataclass(frozen=True)
class Law:
    """The four numbers, and how much of the variance of log errors they leave (0: none)."""

    a: float
    b: float
    c: float
    delta: float
    unexplained: float

    def error(self, heads: PerCell, length: PerCell) -> np.ndarray:
        """1 − accuracy, as the law has it."""
        return self.c * length**self.b * np.exp(self.a * heads / length**self.delta)


def fit_law(heads: PerCell, length: PerCell, wrong: PerCell, *, delta: float | None = None) -> Law:
    """Least squares on log errors; `delta` None is fitted too.

    >>> heads, length = (grid.ravel() for grid in np.meshgrid([2.0, 4, 6, 8], [8.0, 16, 32, 64]))
    >>> law = fit_law(heads, length, Law(-1.4, 0.4, 0.5, 0.25, 0).error(heads, length))
    >>> round(law.a, 3), round(law.b, 3), round(law.c, 3), round(law.delta, 3)
    (-1.4, 0.4, 0.5, 0.25)
    """
    logs = np.log(wrong)

    def rest_at(delta: np.ndarray) -> np.ndarray:
        return _at(float(delta[0]), heads, length, logs)[2]

    if delta is None:
        best = min(
            (least_squares(rest_at, [start], bounds=DELTAS) for start in (0.1, 0.25, 0.5, 0.9)),
            key=lambda fit: fit.cost,
        )
        delta = float(best.x[0])
    _, (a, b, log_c), rest = _at(delta, heads, length, logs)
    spread = float(((logs - logs.mean()) ** 2).sum())
    return Law(float(a), float(b), float(np.exp(log_c)), delta, float((rest**2).sum()) / max(spread, 1e-300))


def law_intervals(
    heads: PerCell, length: PerCell, wrong: PerCell, *, delta: float
) -> dict[str, tuple[float, float]]:
    """95% intervals of a, b and c at this delta, by how far the cells lie from the law."""
    logs = np.log(wrong)
    found = regression(_at(delta, heads, length, logs)[0], logs)
    a, b, log_c = (coefficient.interval for coefficient in found)
    return {"a": a, "b": b, "c": (float(np.exp(log_c[0])), float(np.exp(log_c[1])))}


def delta_interval(heads: PerCell, length: PerCell, wrong: PerCell) -> tuple[float, float]:
    """The deltas at which the law is not significantly worse, at 5%, than at the best one."""
    deltas = np.linspace(*DELTAS, 1001)
    squares = np.array([(_at(one, heads, length, np.log(wrong))[2] ** 2).sum() for one in deltas])
    freedom = len(wrong) - 4
    near = deltas[squares <= squares.min() * (1 + f.ppf(0.95, 1, freedom) / freedom)]
    return float(near[0]), float(near[-1])


def _at(
    delta: float, heads: PerCell, length: PerCell, logs: PerCell
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a, b and log c multiply; their least squares; and what these leave of the log errors."""
    design = np.stack([heads / length**delta, np.log(length), np.ones_like(length)], axis=1)
    found = np.linalg.lstsq(design, logs, rcond=None)[0]
    return design, found, design @ found - logs


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
        f"{name} = {short(getattr(law, name))} ({short(ends[name][0])} to {short(ends[name][1])})"
        for name in "abc"
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
    theirs_left = f"a = {short(of_paper.a)}, {of_paper.unexplained:.0%} unexplained"
    evidence += f"; the paper's numbers in these cells have {theirs_left}"
    return Verdict(claim, bool(holds), evidence)


def _too_few(cells: "pd.Series[float]") -> bool:
    return len(cells) < MIN_CELLS or len({length for _, length in cells.index}) < 2


def _columns(cells: "pd.Series[float]") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Heads, lengths and errors of cells."""
    heads, lengths = (np.array(axis, float) for axis in zip(*cells.index, strict=True))
    return heads, lengths, cells.to_numpy(float)
