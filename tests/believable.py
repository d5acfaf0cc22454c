"""Believable results frames: error grows with length below D, stays flat from D on; and the odd ones."""

import hashlib
import itertools
from collections.abc import Sequence

import numpy as np
import pandas as pd

SIZES = {"token_dim": 1, "head_dim": 8, "hidden": 64, "layers": 1, "steps": 2000, "best_step": 1900}
RUN = {"metric": "nmse", "status": "done", "device": "cpu", "precision": "float32", "seconds": 1.5}
RUN |= {"versions": "headcount 0.1.0, jax 0.10.2", "spec": "{}"}


def believable_frame(
    *,
    task: str = "max_sum",
    dimension: int | None = 4,
    heads: Sequence[int] = (1, 2, 3, 4, 5, 6),
    lengths: Sequence[int] = (8, 16, 32, 64, 128),
    seeds: int = 3,
    learning_rates: Sequence[float] = (1e-3, 1e-2),
) -> pd.DataFrame:
    members = itertools.product(heads, lengths, range(seeds), learning_rates)
    frame = pd.DataFrame(list(members), columns=["heads", "length", "seed", "learning_rate"])
    missing = np.maximum(0, (dimension or 1) - frame["heads"])
    typical = np.where(missing, 4e-3 * missing * (frame["length"] / 8) ** 0.6, 2e-5)
    noise = 0.5 * np.random.default_rng(0).normal(size=len(frame))
    error = np.minimum(typical * np.exp(noise + 100 * (frame["learning_rate"] - 1e-3)), 1.4)
    errors = {"train_error": 0.8 * error, "validation_error": 0.95 * error, "test_error": error}
    grown = {"width": 8 * frame["heads"], "counted_parameters": 1000 * frame["heads"]}
    keys = [f"{task},{dimension},{member}" for member in frame.itertuples(index=False)]
    trials = [hashlib.sha256(key.encode()).hexdigest() for key in keys]
    return frame.assign(trial=trials, task=task, dimension=dimension, **grown, **errors, **SIZES, **RUN)


def diverge(frame: pd.DataFrame, chosen: "pd.Series[bool]", *, at: float = np.nan) -> pd.DataFrame:
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
