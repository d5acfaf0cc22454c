"""Layer norm: the paper's proof has none, and believes that the bound survives it. Does the transition?

A layer of norm stands before every attention: of one layer it normalises what the encoder gives, of two also
what the tokens exchange. The class token is read in the last layer alone, where L·h ≥ D is what blind members
reach, so that the error should fall at h = D with one layer and at h = D / 2 with two.
"""

from dataclasses import replace

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import STATISTICS, Verdict, change_with_length, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.results.numbers import fold
from headcount.trials.grid import Grid

D = 3
HEADS = (1, 2, 3, 4)
FALLS_AT = {1: D, 2: -(-D // 2)}  # layers to heads: L·h ≥ D
NAMES = {
    (layers, norm): f"L = {layers}, {'layer' if norm else 'no'} norm" for layers in (1, 2) for norm in (0, 1)
}


def grids(recipe: Recipe) -> dict[str, Grid]:
    """One and two layers, with a norm and without; two attend T×T, and skip the longest in a quick run."""
    recipe = recipe.light({"steps": 4_000, "batch_size": 32}, {"steps": 10_000, "batch_size": 64})
    recipe = replace(recipe, seeds=max(2, recipe.seeds // 2))
    return {name: _grid(recipe, layers, norm=bool(norm)) for (layers, norm), name in NAMES.items()}


def _grid(recipe: Recipe, layers: int, *, norm: bool) -> Grid:
    model = {"layer_norm": norm, **({"residual": True} if layers > 1 else {})}
    task = maxima(D, token_dim=D)
    lengths, heads = (recipe.lengths, HEADS) if layers == 1 else (recipe.cheap_lengths, HEADS[:-1])
    return recipe.grid(task, heads=heads, head_dim=4, layers=layers, length=lengths, model=model)


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against length, a panel for each kind of member."""
    return [
        Panel(name, summarise(frame[frame["variant"] == name]), enough=FALLS_AT[layers], among=HEADS)
        for (layers, _), name in NAMES.items()
        if name in set(frame["variant"])
    ]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """Where the error falls, and whether it grows with T below; with a norm beside without."""
    verdicts = []
    for (layers, _), name in NAMES.items():
        members, enough = frame[frame["variant"] == name], FALLS_AT[layers]
        claim = f"{name}: from one h to the next, the error falls most to h = {enough}, at every T"
        if members.empty:
            verdicts.append(Verdict(claim, None, "not trained yet"))
            continue
        verdicts.append(_falls_most(summarise(members), claim, enough))
        verdicts += change_with_length(members, enough=enough, where=f"{name}: ")
    return verdicts


def _falls_most(table: pd.DataFrame, claim: str, heads: int) -> Verdict:
    """The largest fall from h to h + 1 ends at these heads, by any statistic; where those differ: unknown."""
    cells = table.pivot(index="heads", columns="length", values=list(STATISTICS))
    if cells.isna().any(axis=None) or len(cells) < 2:
        return Verdict(claim, None, "a cell has no finished member")
    folds = (cells.shift() / cells).iloc[1:]
    there = folds.idxmax() == heads
    evidence = "; ".join(
        f"T = {length}: {', '.join(_largest(folds[name, length]) for name in STATISTICS)}"
        for length in sorted(table["length"].unique())
    )
    holds = bool(there.all()) if there.all() or not there.any() else None
    return Verdict(claim, holds, f"largest fall by minimum, median, selected seed: {evidence}")


def _largest(folds: "pd.Series[float]") -> str:
    return f"{fold(folds.max(), 1)} to h = {folds.idxmax()}"


ITEM = Item(
    "layer_norm",
    "Layer norm: does the transition survive it?",
    "Maxima with D = 3, one layer and two, with layer norm before every attention and without.",
    grids=grids,
    panels=panels,
    judge=judge,
)
