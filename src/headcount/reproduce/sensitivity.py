"""What the paper does not specify, varied: the directions a_i, the data, the steps, layer norm."""

from dataclasses import replace
from math import cos, radians, sin
from typing import Any

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.reproduce.table import TABLE_2, TABLE_3, TABLE_5, Published
from headcount.reproduce.table5 import TWO_LAYERS, shorter
from headcount.results.numbers import scientific
from headcount.trials.grid import Grid

D = 4
HEADS = (3, 4)
ONE_TOO = (1, *HEADS)
ANGLES = (3, 6, 12, 25, 45, 90)
LAYERED = "two layers, angle"
DRAWS = (0, 1, 2, 3, 4, 5, 6, 7)
SAMPLES = (1_000, 2_000, 4_000, 8_000, 32_000, 128_000)
SHARES = (0.01, 0.03, 0.1, 0.3, 1.0)  # of the recipe's steps


def at_an_angle(degrees: float) -> list[list[float]]:
    """Three axes, and a fourth direction at this angle to the third."""
    tilted = [0.0, 0.0, cos(radians(degrees)), sin(radians(degrees))]
    return [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], tilted]


def gaussian(draw: int) -> list[list[float]]:
    """Directions from N(0, I), which differ in length too."""
    return np.random.default_rng(draw).normal(size=(D, 4)).tolist()


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Each variant at one length, just below D and at D; with one head where that may explain the paper's."""
    cheaper = recipe.lighter(lengths=(recipe.middle_length,))
    draws = DRAWS[:3] if recipe.quick else DRAWS

    def directed(directions: object, heads: tuple[int, ...] = HEADS, **options: object) -> Grid:
        return cheaper.grid(maxima(D, directions=directions, **options), heads=heads)

    def trained(heads: tuple[int, ...] = HEADS, **changes: Any) -> Grid:
        return cheaper.grid(maxima(D), heads=heads, training=replace(recipe.training, **changes))

    def layered(directions: object) -> Grid:
        recipe_of_table5 = replace(shorter(recipe), seeds=cheaper.seeds, lengths=cheaper.lengths)
        return recipe_of_table5.grid(maxima(D, directions=directions), heads=(1,), **TWO_LAYERS)

    steps = [max(100, int(recipe.training.steps * share) // 100 * 100) for share in SHARES]
    return {
        **{f"angle = {angle}": directed(at_an_angle(angle)) for angle in ANGLES},
        **{f"unit draw = {draw}": directed("random", smallest_angle=0.0, seed=draw) for draw in draws},
        **{f"gaussian draw = {draw}": directed(gaussian(draw), ONE_TOO) for draw in draws},
        **{f"sequences = {count}": trained(train_samples=count) for count in SAMPLES},
        **{f"steps = {count}": trained(ONE_TOO, steps=count, warmup=None) for count in steps},
        f"{LAYERED} = 3": layered(at_an_angle(3)),
        f"{LAYERED} = 90": layered("orthonormal"),
        "layer norm = 0": cheaper.grid(maxima(D), heads=HEADS),
        "layer norm = 1": cheaper.grid(maxima(D), heads=HEADS, model=(("layer_norm", True),)),
    }


def _families(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Of every family of variants a table with the value that was varied."""
    parts = frame["variant"].str.split(" = ", expand=True)
    named = frame.assign(family=parts[0], value=parts[1].astype(float))
    return {
        str(family): summarise(members, by=("heads", "value"))
        for family, members in named.groupby("family", sort=False)
    }


def panels(frame: pd.DataFrame) -> list[Panel]:
    """A panel per family."""
    return [
        Panel(family, table, across="value", lines="heads", enough=2 if family == LAYERED else D)
        for family, table in _families(frame).items()
    ]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """When D is visible, and what moves the error below it: as far as the paper's numbers?"""
    families = _families(frame)
    length = int(frame["length"].iloc[0])
    return [
        *(_visible(family, table) for family, table in families.items() if family != LAYERED),
        *(
            _reached(family, families[family], heads, length, published)
            for family, heads, published in (
                ("steps", 1, TABLE_2),
                ("gaussian draw", 3, TABLE_2),
                ("gaussian draw", 3, TABLE_3),
                ("angle", 3, TABLE_3),
                (LAYERED, 1, TABLE_5),
            )
        ),
    ]


def _visible(family: str, table: pd.DataFrame) -> Verdict:
    errors = table.pivot(index="value", columns="heads", values=["min", "median"])
    folds = {name: errors[name][D - 1] / errors[name][D] for name in ("min", "median")}
    evidence = "; ".join(
        f"{value:g}: {folds['min'][value]:,.0f} and {folds['median'][value]:,.0f}" for value in errors.index
    )
    claim = f"{family}: the error falls at least 30-fold at D for every value, by minimum and by median"
    below = errors["min"][D - 1]
    spread = f"minimum at h = {D - 1} from {scientific(below.min())} to {scientific(below.max())}"
    holds = all((found >= 30).all() for found in folds.values())
    return Verdict(claim, holds, f"folds {evidence}; {spread}")


def _reached(family: str, table: pd.DataFrame, heads: int, length: int, paper: Published) -> Verdict:
    """Whether the paper's number, which the recipe misses, lies within what this family spans."""
    claim = f"{family}: our minima with h = {heads} span the number of {paper.name} at T = {length}"
    errors = table[table["heads"] == heads]["min"]
    target = paper.errors[heads, length]
    evidence = f"{scientific(target)}; ours from {scientific(errors.min())} to {scientific(errors.max())}"
    return Verdict(claim, bool(errors.min() <= target <= errors.max()), evidence)


ITEM = Item(
    "sensitivity",
    "Sensitivity: what the paper does not specify",
    "Directions, amount of data, steps and layer norm, each varied alone, at h = D - 1 and h = D.",
    grids=grids,
    panels=panels,
    judge=judge,
)
