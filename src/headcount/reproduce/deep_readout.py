"""One head with n = T·d numbers in the class of the third theorem: a ReLU readout of four hidden layers.

`wide_head` trains the paper's class, with one hidden layer, where no weights are known. Here they are:
theory/constructions/tournament.py writes them into the very members that are trained, up to T = 16. There are
128,000 sequences, so that what is not found is not for want of data.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, errors_of, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.results.intervals import Estimated, difference, spanning
from headcount.results.numbers import scientific
from headcount.trials.grid import Grid

D = TOKEN_DIM = 4
HIDDEN, HEAD_DIM = 128, 8
LENGTHS = (8, 16)
DEPTHS = {1: "one hidden layer", 4: "four hidden layers"}  # of the readout
RATES = (1e-3, 3e-3, 1e-2)
SEQUENCES = 128_000
CLOSE = 10  # times the error of D heads
FINISHED = "a cell has fewer than two finished seeds"


def grids(recipe: Recipe) -> dict[str, Grid]:
    """One head, narrow or as wide as the sequence, and D heads; all see positions. A quick run: T = 8."""
    batch_size = 128 if recipe.quick else recipe.training.batch_size
    training = replace(recipe.training, batch_size=batch_size, train_samples=SEQUENCES, test_samples=10_000)
    rates = RATES[:2] if recipe.quick else RATES
    cheaper = replace(recipe, seeds=max(2, recipe.seeds // 2), training=training, rates=rates)
    found = {}
    for depth, readout in DEPTHS.items():
        model = {
            "positions": "one_hot",
            "readout_activation": "relu",
            "readout_hidden": (HIDDEN,) * depth,
        }
        for length in LENGTHS[:1] if recipe.quick else LENGTHS:
            for heads, head_dim in ((1, HEAD_DIM), (1, length * TOKEN_DIM), (D, HEAD_DIM)):
                found[f"{readout}, T = {length}, h = {heads}, n = {head_dim}"] = cheaper.grid(
                    maxima(D), length=length, heads=heads, head_dim=head_dim, hidden=HIDDEN, model=model
                )
    return found


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against length for every shape, a panel per depth of the readout."""
    named = frame.assign(depth=frame["variant"].str.split(",").str[0])
    return [
        Panel(
            f"{shape}, {readout}",
            summarise(members[_of_shape(members, shape)], by=("heads", "length")),
        )
        for readout, members in named.groupby("depth", sort=False)
        for shape in ("n = 8", "n = T·d")
    ]


def _of_shape(members: pd.DataFrame, shape: str) -> "pd.Series[bool]":
    return members["head_dim"] == (HEAD_DIM if shape == "n = 8" else members["length"] * TOKEN_DIM)


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """Whether one wide head comes near D heads, by the interval of how many times larger its error is."""
    return [
        verdict
        for length in sorted(frame["length"].unique().tolist())
        for readout in DEPTHS.values()
        for verdict in _compared(frame, readout, int(length))
    ]


def _compared(frame: pd.DataFrame, readout: str, length: int) -> list[Verdict]:
    wide, several = (
        errors_of(frame[frame["variant"] == f"{readout}, T = {length}, h = {heads}, n = {head_dim}"])
        for heads, head_dim in ((1, length * TOKEN_DIM), (D, HEAD_DIM))
    )
    claim = (
        f"T = {length}: trained with {readout} in the readout, one head of n = T·d = {length * TOKEN_DIM} "
        f"comes within {CLOSE} times the error of D heads"
    )
    if min(len(wide), len(several)) < 2:
        return [Verdict(claim, None, FINISHED)]
    times = spanning((np.log(wide), np.log(several)), lambda pair: difference(*pair))
    low, high = np.exp(times.interval)
    holds = True if high <= CLOSE else False if low > CLOSE else None
    medians = " against ".join(scientific(np.median(errors)) for errors in (wide, several))
    evidence = (
        f"{_times(times)} times the error, by geometric means over {len(wide)} seeds; medians {medians}, "
        f"lowest seeds {scientific(wide.min())} against {scientific(several.min())}"
    )
    return [Verdict(claim, holds, evidence)]


def _times(logarithm: Estimated) -> str:
    ends = (logarithm.value, *logarithm.interval)
    value, low, high = (f"{x:,.0f}" if x >= 100 else f"{x:.2g}" for x in np.exp(ends))
    return f"{value} ({low} to {high}{logarithm.note})"


ITEM = Item(
    "deep_readout",
    "One wide head with a readout of four hidden layers",
    "One head of n = T·d numbers beside D heads, positions seen, with one and four hidden ReLU layers.",
    grids=grids,
    panels=panels,
    judge=judge,
)
