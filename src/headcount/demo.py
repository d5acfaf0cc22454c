"""The example of `headcount demo`: a data set as a person would bring it, whose answer is known."""

import numpy as np

DIMENSION, LENGTH, SAMPLES, NOISE = 3, 16, 4_000, 0.02


def example_data(*, seed: int = 0) -> dict[str, np.ndarray]:
    """Sums of the largest first, second and third feature of a sequence, plus a little noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(SAMPLES, LENGTH, DIMENSION)).astype(np.float32)
    y = x.max(axis=1).sum(axis=1)
    return {"x": x, "y": y + NOISE * y.std() * random.normal(size=SAMPLES)}
