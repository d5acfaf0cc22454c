"""The law that the paper fits to its real-data errors: 1 − accuracy ≈ c · T^b · exp(a · h / T^delta)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares
from scipy.stats import f, t

DELTAS = (0.0, 1.0)


@dataclass(frozen=True)
class Law:
    """The four numbers, and how much of the variance of log errors they leave (0: none)."""

    a: float
    b: float
    c: float
    delta: float
    unexplained: float

    def error(self, heads: Float[np.ndarray, " cell"], length: Float[np.ndarray, " cell"]) -> np.ndarray:
        """1 − accuracy, as the law has it."""
        wrong: np.ndarray = self.c * length**self.b * np.exp(self.a * heads / length**self.delta)
        return wrong


def fit_law(
    heads: Float[np.ndarray, " cell"],
    length: Float[np.ndarray, " cell"],
    wrong: Float[np.ndarray, " cell"],
    *,
    delta: float | None = None,
) -> Law:
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
    heads: Float[np.ndarray, " cell"],
    length: Float[np.ndarray, " cell"],
    wrong: Float[np.ndarray, " cell"],
    *,
    delta: float,
) -> dict[str, tuple[float, float]]:
    """95% intervals of a, b and c at this delta, by how far the cells lie from the law."""
    design, found, rest = _at(delta, heads, length, np.log(wrong))
    freedom = len(rest) - len(found)
    variance = float((rest**2).sum()) / freedom * np.linalg.inv(design.T @ design).diagonal()
    reach = t.ppf(0.975, freedom) * np.sqrt(variance)
    low, high = found - reach, found + reach
    low[2], high[2] = np.exp([low[2], high[2]])
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate("abc")}


def delta_interval(
    heads: Float[np.ndarray, " cell"], length: Float[np.ndarray, " cell"], wrong: Float[np.ndarray, " cell"]
) -> tuple[float, float]:
    """The deltas at which the law is not significantly worse, at 5%, than at the best one."""
    deltas = np.linspace(*DELTAS, 201)
    squares = np.array([(_at(one, heads, length, np.log(wrong))[2] ** 2).sum() for one in deltas])
    freedom = len(wrong) - 4
    near = deltas[squares <= squares.min() * (1 + f.ppf(0.95, 1, freedom) / freedom)]
    return float(near[0]), float(near[-1])


def _at(
    delta: float,
    heads: Float[np.ndarray, " cell"],
    length: Float[np.ndarray, " cell"],
    logs: Float[np.ndarray, " cell"],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a, b and log c multiply; their least squares; and what these leave of the log errors."""
    design = np.stack([heads / length**delta, np.log(length), np.ones_like(length)], axis=1)
    found = np.linalg.lstsq(design, logs, rcond=None)[0]
    return design, found, design @ found - logs
