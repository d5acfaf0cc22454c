"""The third regime: does one head with n up to T·d learn to memorise where it cannot retrieve?"""

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
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
    """A head as wide as the sequence against D heads of 8 numbers."""
    verdicts = []
    for length in LENGTHS:
        at = frame[frame["length"] == length]
        one, several = (
            summarise(at[at["variant"] == variant], by=CELL).set_index("head_dim")["min"]
            for variant in ("one head", "D heads")
        )
        wide = one[one.index >= 4 * length].min()
        evidence = f"n = 8: {one[8]:.1e}, n ≥ T·d: {wide:.1e}, D heads of 8: {several[8]:.1e}"
        claim = f"T = {length}: trained, one head of n ≥ T·d comes within 10 times the error of D heads"
        verdicts.append(Verdict(claim, bool(wide <= 10 * several[8]), evidence))
    return verdicts


ITEM = Item(
    "wide_head",
    "One wide head: memorising instead of retrieving",
    "One head with n from 8 up to T·d numbers and N = 128, positions seen; the theorem lets it memorise.",
    grids=grids,
    panels=panels,
    judge=judge,
)
