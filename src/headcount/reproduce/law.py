"""The law that the paper fits to its real-data errors: 1 − accuracy ≈ c · T^b · exp(a · h / T^delta)."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

RESAMPLES = 400
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

    def at(delta: float) -> tuple[np.ndarray, np.ndarray]:
        design = np.stack([heads / length**delta, np.log(length), np.ones_like(length)], axis=1)
        found = np.linalg.lstsq(design, logs, rcond=None)[0]
        return found, design @ found - logs

    def rest_at(delta: np.ndarray) -> np.ndarray:
        return at(float(delta[0]))[1]

    if delta is None:
        best = min(
            (least_squares(rest_at, [start], bounds=DELTAS) for start in (0.1, 0.25, 0.5, 0.9)),
            key=lambda fit: fit.cost,
        )
        delta = float(best.x[0])
    (a, b, log_c), rest = at(delta)
    spread = float(((logs - logs.mean()) ** 2).sum())
    return Law(float(a), float(b), float(np.exp(log_c)), delta, float((rest**2).sum()) / max(spread, 1e-300))


def law_intervals(
    heads: Float[np.ndarray, " cell"],
    length: Float[np.ndarray, " cell"],
    wrong: list[Float[np.ndarray, " seeds"]],
    *,
    delta: float | None = None,
    seed: int = 0,
) -> dict[str, tuple[float, float]]:
    """95% intervals of the four numbers over resampled seeds of every cell and resampled cells."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(RESAMPLES):
        cells = random.integers(len(wrong), size=len(wrong))
        if len({heads[cell] for cell in cells}) < 2 or len({length[cell] for cell in cells}) < 2:
            continue
        means = np.array([random.choice(wrong[cell], len(wrong[cell])).mean() for cell in cells])
        law = fit_law(heads[cells], length[cells], means, delta=delta)
        found.append([law.a, law.b, law.c, law.delta])
    low, high = np.quantile(found, [0.025, 0.975], axis=0)
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate(("a", "b", "c", "delta"))}
