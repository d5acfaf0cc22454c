"""Theorem 2(2) under its own assumption: bounded weights, on a task that the lower bound covers.

Nothing else here is trained under Assumption 1 (models/bounded.py). β multiplies all logits, and the theorem
leaves it free; it is set so that the attention of a member that is not yet trained tells tokens apart, which
training then sharpens through the class token.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import (
    Verdict,
    change_with_length,
    errors_by,
    falls,
    log_slope,
    summarise,
)
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice

D, HEAD_DIM, HIDDEN, BETA = 3, 8, 32, 8.0
HEADS = tuple(range(1, D + 2))
SIZES = (8, 16, 32, 64)
WELLS = ((0.1, 0.1), (0.9, 0.2), (0.4, 0.9))
ACTIVATIONS = ("relu", "tanh")
FREE = "free"  # the same members without the bounds
CELL = ("heads", "hidden", "length")


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Heads × length for either F, for the first one without bounds too; and hidden sizes around D."""
    recipe = recipe.light(steps=6_000, batch_size=64)
    task = TaskChoice.of("bowls", token_dim=2, wells=WELLS).at(D)

    def grid(activation: str, *, bounded: bool = True, **axes: Any) -> Grid:
        model = {"bounded": bounded, "beta": BETA, "encoder_activation": "gelu"}
        chosen = {"heads": HEADS, "head_dim": HEAD_DIM, "hidden": HIDDEN, **axes}
        return recipe.grid(task, model={**model, "readout_activation": activation}, **chosen)

    first = ACTIVATIONS[0]
    return {
        **{activation: grid(activation) for activation in ACTIVATIONS},
        FREE: grid(first, bounded=False, heads=(D - 1, D)),
        "hidden": grid(
            first, heads=(D - 1, D), hidden=SIZES, length=recipe.lengths[:: len(recipe.lengths) - 1]
        ),
    }


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against length for each kind of F, with bounds and without; and against hidden size."""
    titles = {activation: f"bounded, {activation} F" for activation in ACTIVATIONS} | {FREE: "not bounded"}
    along_t = [
        Panel(title, summarise(frame[frame["variant"] == name]), enough=D, among=HEADS)
        for name, title in titles.items()
    ]
    table = summarise(frame[frame["variant"] == "hidden"], by=CELL)
    along_n = [
        Panel(f"bounded, h = {heads}", table[table["heads"] == heads], across="hidden", lines="length")
        for heads in (D - 1, D)
    ]
    return [*along_t, *along_n]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """The transition and the direction of the bound for each F; then what a larger N buys."""
    verdicts = []
    for activation in ACTIVATIONS:
        members, what = frame[frame["variant"] == activation], f"bounded, {activation} F"
        fall = falls(members, below=D - 1, at=D, factor=10)
        verdicts.append(replace(fall, claim=f"{what}: {fall.claim}"))
        verdicts += change_with_length(members, enough=D, where=f"{what}: ")
    free = frame[frame["variant"] == FREE]
    verdicts += change_with_length(free, enough=D, where="not bounded, relu F: ")
    return [*verdicts, *_sizes(frame[frame["variant"] == "hidden"])]


def _sizes(frame: pd.DataFrame) -> list[Verdict]:
    """M = Ω(1/ε^k) with a k that grows with T: below D, a larger N buys less at a larger T."""
    verdicts = []
    for heads in sorted(frame["heads"].unique().tolist()):
        claim = f"bounded, h = {heads}: the error falls as N grows, at every T"
        found = {}
        for length, members in frame[frame["heads"] == heads].groupby("length"):
            groups = errors_by(members, "hidden")
            found[length] = log_slope(np.array(list(groups), float), list(groups.values()))
        evidence = "; ".join(f"T = {length}: {exponent}" for length, exponent in found.items())
        falling = all(exponent.sign < 0 for exponent in found.values())
        verdicts.append(Verdict(claim, falling or None, f"exponents of N {evidence}"))
    return verdicts


ITEM = Item(
    "bounded",
    "Theorem 2(2) under its own assumption: bounded weights",
    "Bowls, an encoder in the unit ball and weights of at most 1: does the error follow the bound?",
    grids=grids,
    panels=panels,
    judge=judge,
)
