"""Figure 4: how large must the hidden layers be for a given error, as T grows?"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import (
    Group,
    Verdict,
    at_selected_rate,
    errors_by,
    errors_of,
    log_slope,
    summarise,
)
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.results.intervals import Estimated, regression, spanning
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


def power_laws(frame: pd.DataFrame, heads: int, *, where: str = "") -> list[Verdict]:
    """Below D the error falls as a power of N, and a longer T needs a larger N; from D on N matters less."""
    members = frame[frame["heads"] == heads]
    lengths = sorted(members["length"].unique().tolist())
    claim = f"{where}with h = {heads} the error falls as N grows, at every T"
    if heads >= D:
        claim = f"{where}with h = {heads} a larger N does not help at any T"
    cells = members.groupby(["length", "hidden"])
    if min(len(at_selected_rate(cell)) for _, cell in cells) < 2:
        reason = "needs two finished seeds in every cell"
        return [Verdict(claim, None, reason)]
    slopes = {length: _law(members[members["length"] == length]) for length in lengths}
    exponents = {length: -law for length, law in slopes.items()}
    each = "; ".join(f"T = {length}: {exponent}" for length, exponent in exponents.items())
    evidence = f"exponents of N over seeds, {each}"
    signs = [exponent.sign for exponent in exponents.values()]
    if heads >= D:
        holds = False if 1 in signs else None if 0 in signs else True
        return [Verdict(claim, holds, evidence)]
    holds = False if -1 in signs else None if 0 in signs else True
    return [Verdict(claim, holds, evidence), _needed(members, heads, where)]


def _law(members: pd.DataFrame) -> Estimated:
    groups = errors_by(members, "hidden")
    return log_slope(np.array(list(groups), float), list(groups.values()))


def _needed(members: pd.DataFrame, heads: int, where: str) -> Verdict:
    """By log(error) = a − b log(N) + c log(T) over seeds: N grows as T^(c / b) for the same error."""
    claim = f"{where}with h = {heads} the same error needs a larger N as T grows"
    cells = members.groupby(["hidden", "length"])
    logs = [np.log(errors_of(cell)) for _, cell in cells]
    terms = np.insert(np.log(np.array([place for place, _ in cells], float)), 0, 1, axis=1)

    def coefficient(groups: Sequence[Group], *, of: int) -> Estimated:
        design = terms.repeat([len(group) for group in groups], axis=0)
        return regression(design, np.concatenate(groups))[of]

    falling, growing = (spanning(logs, partial(coefficient, of=term)) for term in (1, 2))
    holds = growing.sign > 0 if growing.sign and falling.sign < 0 else None
    power = f"N grows as T^{-growing.value / falling.value:.2f}" if falling.value < 0 else "N does not help"
    return Verdict(claim, holds, f"at equal N the error grows as T^{growing}; {power}")


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
