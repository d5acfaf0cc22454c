"""Figure 4 with so much data that none of it is fitted by heart, and the rate tuned in every cell.

`figure4` has 8,000 sequences and one rate. A larger N may then fit the training data better and fresh data
worse, and the rate may suit one size better than another. Here are exponents of both errors.
"""

from dataclasses import replace

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import Verdict
from headcount.reproduce.figure4 import HEADS, HIDDEN, D, name, panel, power_laws
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.trials.grid import Grid

SEQUENCES = 128_000
STEPS = 10_000
ERRORS = {"test": "on test data, ", "train": "on training data, "}


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Every other length; half of the seeds and a third of the steps, at all rates."""
    training = replace(
        recipe.training,
        steps=min(STEPS, recipe.training.steps),
        warmup=None,
        train_samples=SEQUENCES,
        test_samples=10_000,
    )
    lengths = recipe.lengths if recipe.quick else recipe.lengths[::2]
    cheaper = replace(recipe, seeds=max(2, recipe.seeds // 2), lengths=lengths, training=training)
    hidden = HIDDEN[:3] if recipe.quick else HIDDEN
    return {name(heads): cheaper.grid(maxima(D), heads=(heads,), hidden=hidden) for heads in HEADS}


def panels(frame: pd.DataFrame) -> list[Panel]:
    """Error against hidden size, a panel per number of heads and kind of error."""
    return [
        panel(measured_on(frame, data), heads, title=f"{name(heads)}, {where.removesuffix(', ')}")
        for data, where in ERRORS.items()
        for heads in HEADS
    ]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """The laws of Figure 4 by either error."""
    return [
        verdict
        for data, where in ERRORS.items()
        for heads in HEADS
        for verdict in power_laws(measured_on(frame, data), heads, where=where)
    ]


def measured_on(frame: pd.DataFrame, data: str) -> pd.DataFrame:
    """The same members, judged by their error on these data; validation chooses the rate as ever."""
    return frame.assign(test_error=frame[f"{data}_error"])


ITEM = Item(
    "figure4_data",
    "Figure 4 with 128,000 sequences",
    "Hidden layers of N = 8 to 128 for h = 1..5 heads of n = 8 numbers, the rate chosen in every cell.",
    grids=grids,
    panels=panels,
    judge=judge,
)
