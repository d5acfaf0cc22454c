"""One head with n up to T·d numbers: does it learn to memorise where it cannot retrieve?

The theorem's third regime has a readout of four hidden layers; the class trained here, the paper's, has one.
So what training finds here says nothing on whether it finds the theorem's weights.
"""

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, errors_by, errors_of, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.results.numbers import scientific
from headcount.trials.grid import Grid

D = 4
LENGTHS = (8, 16)
HEAD_DIMS = (8, 16, 32, 64)
HIDDEN = 128
CELL = ("heads", "head_dim", "length")


def grids(recipe: Recipe) -> dict[str, Grid]:
    """One head of n numbers that sees positions, as the construction needs it; and D heads of 8."""
    cheaper = recipe.lighter(lengths=LENGTHS)
    seeing = (("positions", "one_hot"),)
    return {
        "one head": cheaper.grid(maxima(D), heads=(1,), head_dim=HEAD_DIMS, hidden=(HIDDEN,), model=seeing),
        "D heads": cheaper.grid(maxima(D), heads=(D,), head_dim=(8,), hidden=(HIDDEN,), model=seeing),
    }


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against head size, a line per length; T·d is where the theorem begins."""
    table = summarise(frame[frame["variant"] == "one head"], by=CELL)
    return [Panel("one head of n numbers", table, across="head_dim", lines="length")]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """A head as wide as the sequence against D heads of 8 numbers, seed by seed."""
    verdicts = []
    for length in LENGTHS:
        at = frame[frame["length"] == length]
        one = errors_by(at[at["variant"] == "one head"], "head_dim")
        several = errors_of(at[at["variant"] == "D heads"])
        wide = [errors for size, errors in one.items() if size >= 4 * length]
        claim = (
            f"T = {length}: trained with one hidden layer in the readout, one head of n ≥ T·d comes within "
            "10 times the error of D heads"
        )
        if not (wide and several.size and min(map(len, wide))):
            verdicts.append(Verdict(claim, None, "a cell has no finished member, or n ≥ T·d was not trained"))
            continue
        best = min(wide, key=np.median)
        evidence = (
            f"medians n = 8: {scientific(np.median(one[8]))}, n ≥ T·d: {scientific(np.median(best))}, "
            f"D heads of 8: {scientific(np.median(several))}; lowest seed of n ≥ T·d "
            f"{scientific(np.min(wide))}, highest of D heads {scientific(several.max())}, "
            f"{len(several)} seeds"
        )
        verdicts.append(Verdict(claim, bool(np.min(wide) <= 10 * several.max()), evidence))
    return verdicts


ITEM = Item(
    "wide_head",
    "One wide head: memorising instead of retrieving",
    "One head with n from 8 up to T·d numbers and N = 128, positions seen; one hidden layer in the readout.",
    grids=grids,
    panels=panels,
    judge=judge,
)
