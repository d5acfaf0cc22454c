"""Layer norm: the paper's proof has none, and believes that the bound survives it. Does the transition?

A layer of norm stands before every attention: of one layer it normalises what the encoder gives, of two also
what the tokens exchange. The class token is read in the last layer alone, where L·h ≥ D is what blind members
reach, so that the error should fall at h = D with one layer and at h = D / 2 with two.
"""

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.reproduce.slopes import grows_below
from headcount.trials.grid import Grid

D = 3
HEADS = (1, 2, 3, 4)
FALLS_AT = {1: D, 2: -(-D // 2)}  # layers to heads: L·h ≥ D
NAMES = {
    (layers, norm): f"L = {layers}, {'layer' if norm else 'no'} norm" for layers in (1, 2) for norm in (0, 1)
}


def grids(recipe: Recipe) -> dict[str, Grid]:
    """One and two layers, with a norm and without; two attend T×T, and skip the longest."""
    recipe = recipe.light(steps=4_000, batch_size=32)
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
        if members.empty:
            verdicts.append(Verdict(_claim(name, enough), None, "not trained yet"))
            continue
        verdicts.append(_falls_most(summarise(members), name, enough))
        verdicts += grows_below(members, dimension=enough, what=name)
    return verdicts


def _claim(what: str, heads: int) -> str:
    return f"{what}: from one h to the next, the error falls most to h = {heads}, at every T that was trained"


def _falls_most(table: pd.DataFrame, what: str, heads: int) -> Verdict:
    """The largest of the falls from h to h + 1, at every T, is the one that ends at these heads."""
    claim = _claim(what, heads)
    errors = table.pivot(index="heads", columns="length", values="min")
    if errors.isna().any(axis=None) or len(errors) < 2:
        return Verdict(claim, None, "a cell has no finished member")
    folds = (errors.shift() / errors).iloc[1:]
    most = folds.idxmax()
    evidence = ", ".join(
        f"T = {length}: {folds[length].max():,.0f}-fold to h = {at}" for length, at in most.items()
    )
    return Verdict(claim, bool((most == heads).all()), evidence)


ITEM = Item(
    "layer_norm",
    "Layer norm: does the transition survive it?",
    "Maxima with D = 3, one layer and two, with layer norm before every attention and without.",
    grids=grids,
    panels=panels,
    judge=judge,
)
