"""A believable results frame: error grows with length below D and stays flat from D on."""

import hashlib
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

MakeFrame = Callable[..., pd.DataFrame]


def believable_frame(
    *,
    task: str = "max_sum",
    dimension: int | None = 4,
    heads: Sequence[int] = (1, 2, 3, 4, 5, 6),
    lengths: Sequence[int] = (8, 16, 32, 64, 128),
    seeds: int = 3,
    learning_rates: Sequence[float] = (1e-3, 1e-2),
) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    rows = []
    for count, length, seed, rate in itertools.product(heads, lengths, range(seeds), learning_rates):
        missing = max(0, (dimension or 1) - count)
        typical = 2e-5 if missing == 0 else 4e-3 * missing * (length / 8) ** 0.6
        error = min(typical * np.exp(0.5 * generator.normal() + 200 * abs(rate - 1e-3) / 2), 1.4)
        rows.append(
            {
                "trial": hashlib.sha256(
                    f"{task}{dimension}{count},{length},{seed},{rate}".encode()
                ).hexdigest(),
                "task": task,
                "dimension": dimension,
                "token_dim": 1,
                "length": length,
                "heads": count,
                "head_dim": 8,
                "hidden": 64,
                "layers": 1,
                "width": 8 * count,
                "seed": seed,
                "learning_rate": rate,
                "steps": 2000,
                "counted_parameters": 1000 * count,
                "train_error": error * 0.8,
                "validation_error": error * 0.95,
                "test_error": error,
                "metric": "nmse",
                "status": "done",
                "best_step": 1900,
                "device": "cpu",
                "precision": "float32",
                "seconds": 1.5,
                "versions": "jax 0.10.2",
                "spec": "{}",
            }
        )
    return pd.DataFrame(rows)


def diverge(frame: pd.DataFrame, chosen: "pd.Series[bool]", *, at: float = float("nan")) -> pd.DataFrame:
    """The same frame in which the chosen members diverged, with the error they had before, if any."""
    errors = ["train_error", "validation_error", "test_error"]
    changed = frame.copy()
    changed.loc[chosen, errors] = at
    changed.loc[chosen, "status"] = "diverged"
    return changed


@pytest.fixture(scope="session")
def make_frame() -> MakeFrame:
    return believable_frame
