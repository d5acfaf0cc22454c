"""Believable results frames: error grows with length below D, stays flat from D on; and the odd ones."""

import hashlib
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

NAN = float("nan")


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
        typical = 4e-3 * missing * (length / 8) ** 0.6 if missing else 2e-5
        error = min(typical * np.exp(0.5 * generator.normal() + 100 * (rate - 1e-3)), 1.4)
        trial = f"{task},{dimension},{count},{length},{seed},{rate}"
        rows.append(
            {
                "trial": hashlib.sha256(trial.encode()).hexdigest(),
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
                "versions": "headcount 0.1.0, jax 0.10.2",
                "spec": "{}",
            }
        )
    return pd.DataFrame(rows)


def diverge(frame: pd.DataFrame, chosen: "pd.Series[bool]", *, at: float = NAN) -> pd.DataFrame:
    """The same frame in which the chosen members diverged, with the error they had before, if any."""
    return with_error(frame, chosen, at).assign(status=frame["status"].where(~chosen, "diverged"))


def with_error(frame: pd.DataFrame, chosen: "pd.Series[bool]", error: float) -> pd.DataFrame:
    columns = ["train_error", "validation_error", "test_error"]
    return frame.assign(**{column: frame[column].where(~chosen, error) for column in columns})


def in_cell(frame: pd.DataFrame, *, heads: int, length: int) -> "pd.Series[bool]":
    return (frame["heads"] == heads) & (frame["length"] == length)


def _odd_frames() -> dict[str, pd.DataFrame]:
    usual = believable_frame(seeds=2)
    cell = in_cell(usual, heads=3, length=32)
    everyone = usual["heads"] > 0
    return {
        "usual": usual,
        "one length": believable_frame(lengths=(32,)),
        "one number of heads": believable_frame(heads=(4,)),
        "one member": believable_frame(heads=(2,), lengths=(8,), seeds=1, learning_rates=(1e-3,)),
        "sixteen heads, many seeds": believable_frame(dimension=8, heads=range(1, 17), seeds=6),
        "only too few heads": believable_frame(heads=(1, 2)),
        "dimension not known": believable_frame(dimension=None),
        "a cell that diverged": diverge(usual, cell),
        "diverged after an error": diverge(usual, cell & (usual["seed"] == 0), at=3.0),
        "everyone diverged": diverge(usual, everyone),
        "an error of zero": with_error(usual, cell & (usual["seed"] == 0), 0.0),
        "every error zero": with_error(usual, everyone, 0.0),
        "all errors alike": with_error(usual, everyone, 0.1),
        "an endless error": with_error(usual, cell & (usual["seed"] == 0), float("inf")),
        "a cell never trained": usual[~cell],
        "lengths that are no powers of two": believable_frame(lengths=(10, 37, 100)),
    }


ODD_FRAMES = _odd_frames()
