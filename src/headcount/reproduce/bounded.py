"""Theorem 2(2) under its own assumption: bounded weights, on a task that the lower bound covers.

Nothing else here is trained under Assumption 1 (models/bounded.py). β multiplies all logits, and the theorem
leaves it free; it is set so that the attention of a member that is not yet trained tells tokens apart, which
training then sharpens through the class token. A larger one in full: with that of the quick run members at
T = 128 stay where they start.

A five-layer F and a step (Heaviside's function) are the two variants of the bound. A step has no gradient:
its members follow a straight-through estimate.
"""

from collections.abc import Mapping
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

D, HEAD_DIM, HIDDEN = 3, 8, 32
BETA = {"quick": 8.0, "full": 32.0}
HEADS = tuple(range(1, D + 2))
SIZES = (8, 16, 32, 64)
WELLS = ((0.1, 0.1), (0.9, 0.2), (0.4, 0.9))
RELU = "relu"
READOUTS: Mapping[str, Mapping[str, Any]] = {
    RELU: {"readout_activation": "relu"},
    "tanh": {"readout_activation": "tanh"},
    "five-layer relu": {"readout_activation": "relu", "readout_hidden": (HIDDEN,) * 4},
    "step": {"readout_activation": "step"},
}  # kinds of F; the last two are variants of the bound
VARIANTS = tuple(READOUTS)[2:]
FREE = "free"  # the same members without the bounds
TITLES = {kind: f"bounded, {kind} F" for kind in READOUTS} | {FREE: "not bounded, relu F"}
CELL = ("heads", "hidden", "length")


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Heads × length for each F, for the first one without bounds too; and hidden sizes around D."""
    recipe = recipe.light({"steps": 6_000, "batch_size": 64}, {"steps": 15_000, "batch_size": 128})
    task = TaskChoice.of("bowls", token_dim=2, wells=WELLS).at(D)

    def grid(kind: str, *, bounded: bool = True, **axes: Any) -> Grid:
        beta = BETA["quick" if recipe.quick else "full"]
        model = {"bounded": bounded, "beta": beta, "encoder_activation": "gelu"}
        chosen = {"heads": HEADS, "head_dim": HEAD_DIM, "hidden": HIDDEN, **axes}
        return recipe.grid(task, model={**model, **READOUTS[kind]}, **chosen)

    around, ends, some = (D - 1, D), recipe.lengths[:: len(recipe.lengths) - 1], recipe.lengths[::2]
    return {
        **{kind: grid(kind) for kind in READOUTS if kind not in VARIANTS},
        **{kind: grid(kind, heads=around, length=some) for kind in VARIANTS},
        FREE: grid(RELU, bounded=False, heads=around),
        "hidden": grid(RELU, heads=around, hidden=SIZES, length=ends),
    }


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against length for each kind of F, with bounds and without; and against hidden size."""
    trained = set(frame["variant"])
    along_t = [
        Panel(title, summarise(frame[frame["variant"] == name]), enough=D, among=HEADS)
        for name, title in TITLES.items()
        if name in trained
    ]
    if "hidden" not in trained:
        return along_t
    table = summarise(frame[frame["variant"] == "hidden"], by=CELL)
    along_n = [
        Panel(f"bounded, h = {heads}", table[table["heads"] == heads], across="hidden", lines="length")
        for heads in (D - 1, D)
    ]
    return [*along_t, *along_n]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """The transition and the direction of the bound for each F, and without; then what a larger N buys."""
    verdicts = []
    for name, what in TITLES.items():
        members = frame[frame["variant"] == name]
        if members.empty:
            verdicts.append(
                Verdict(f"{what}: the error falls from h = {D - 1} to h = {D}", None, "not trained")
            )
            continue
        fall = falls(members, below=D - 1, at=D, factor=10)
        verdicts.append(replace(fall, claim=f"{what}: {fall.claim}"))
        verdicts += change_with_length(members, enough=D, where=f"{what}: ")
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
