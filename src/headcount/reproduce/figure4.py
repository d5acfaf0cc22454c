"""Figure 4: how large must the hidden layers be for a given error, as T grows?"""

from dataclasses import replace

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, at_selected_rate, slope_interval, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.trials.grid import Grid

D = 4
HEADS = (1, 2, 3, 4, 5)
HIDDEN = (8, 16, 32, 64, 128)
CELL = ("heads", "hidden", "length")


def name(heads: int) -> str:
    """The name of the grid with this number of heads."""
    return f"h = {heads}"


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Half of the seeds and of the steps, and only the rate that suits most cells: there are five sizes."""
    training = replace(recipe.training, steps=recipe.training.steps // 200 * 100, warmup=None)
    cheaper = recipe.lighter(lengths=recipe.cheap_lengths)
    cheaper = replace(cheaper, training=training, rates=recipe.rates[-1:])
    hidden = HIDDEN[:3] if recipe.quick else HIDDEN
    return {name(heads): cheaper.grid(maxima(D), heads=(heads,), hidden=hidden) for heads in HEADS}


def panel(frame: pd.DataFrame, heads: int, *, title: str | None = None) -> Panel:
    """Error against hidden size, a line per length."""
    table = summarise(frame[frame["heads"] == heads], by=CELL)
    return Panel(title or f"h = {heads}", table, across="hidden", lines="length")


def power_laws(frame: pd.DataFrame, heads: int) -> list[Verdict]:
    """Below D the error falls as a power of N, and a longer T needs a larger N; from D on N matters less."""
    members = frame[frame["heads"] == heads]
    lengths = sorted(members["length"].unique().tolist())
    claim = f"with h = {heads} the error falls as N grows, at every T"
    if heads >= D:
        claim = f"with h = {heads} a larger N does not help at any T"
    cells = members.groupby(["length", "hidden"])
    if min(len(at_selected_rate(cell)) for _, cell in cells) < 2:
        reason = "needs two finished seeds in every cell"
        return [Verdict(claim, None, reason)]
    slopes = {length: _law(members[members["length"] == length]) for length in lengths}
    evidence = "; ".join(
        f"T = {length}: {-slope:.2f} ({-high:.2f} to {-low:.2f})"
        for length, (slope, low, high) in slopes.items()
    )
    falling = [high < 0 for _, _, high in slopes.values()]
    if heads >= D:
        return [Verdict(claim, not any(falling), f"exponents {evidence}")]
    return [Verdict(claim, all(falling), f"exponents {evidence}"), _needed(members, heads)]


def _law(members: pd.DataFrame) -> tuple[float, float, float]:
    groups = [at_selected_rate(cell)["test_error"].to_numpy() for _, cell in members.groupby("hidden")]
    return slope_interval(np.array(sorted(members["hidden"].unique()), float), groups)


def _needed(members: pd.DataFrame, heads: int) -> Verdict:
    """The N at which each length's line meets the error that T = 8 has at N = 32, or the middle ones."""
    lengths = sorted(members["length"].unique().tolist())
    claim = f"with h = {heads} the same error needs a larger N at T = {lengths[-1]} than at T = {lengths[0]}"
    errors = summarise(members, by=CELL).pivot(index="hidden", columns="length", values="min")
    sizes = np.log(errors.index.to_numpy(float))
    level = float(np.log(errors.to_numpy()[len(errors) // 2, 0]))
    needed = {}
    for length, column in zip(map(int, errors.columns), errors.to_numpy().T, strict=True):
        slope, start = np.polyfit(sizes, np.log(column), 1)
        needed[length] = float(np.exp((level - start) / slope)) if slope < 0 else float("inf")
    evidence = ", ".join(f"T = {length}: N = {size:,.0f}" for length, size in needed.items())
    values = list(needed.values())
    return Verdict(claim, values[-1] > values[0], f"for the error {np.exp(level):.1e}: {evidence}")


def panels(frame: pd.DataFrame) -> list[Panel]:
    """A panel per number of heads."""
    return [panel(frame, heads) for heads in HEADS]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """The laws of every panel."""
    return [verdict for heads in HEADS for verdict in power_laws(frame, heads)]


ITEM = Item(
    "figure4",
    "Figure 4: error against hidden size",
    "Hidden layers of N = 8 to 128 for h = 1..5 heads of n = 8 numbers; lines are fitted per length.",
    grids=grids,
    panels=panels,
    judge=judge,
)
