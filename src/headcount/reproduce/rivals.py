"""Rival explanations of the transition: head count, head size, width or parameters?"""

import pandas as pd

from headcount.report.panel import Panel
from headcount.reproduce.claims import STATISTICS, Verdict, errors_by, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.recipe import Recipe, maxima
from headcount.results.numbers import fold, scientific
from headcount.trials.grid import Grid

D = 4
HEADS = (1, 2, 3, 4, 5)
HEAD_DIMS = (2, 4, 8, 16, 32)
WIDTH = HIDDEN = 32
PARAMETERS = 2305  # of h = 4 heads of 8 numbers with N = 32
CELL = ("heads", "head_dim", "hidden", "counted_parameters")


def hidden_for(heads: int) -> int:
    """The N at which heads of 8 numbers have as many counted parameters: N(16h + 7) + 8h + 1.

    >>> [hidden_for(heads) for heads in (1, 4)]
    [100, 32]
    """
    return round((PARAMETERS - 8 * heads - 1) / (16 * heads + 7))


def grids(recipe: Recipe) -> dict[str, Grid]:
    """Heads × head size at one length; and heads at equal parameters."""
    cheaper = recipe.lighter(lengths=(recipe.middle_length,))
    equal = {
        f"parameters, h = {heads}": cheaper.grid(maxima(D), heads=(heads,), hidden=(hidden_for(heads),))
        for heads in HEADS
    }
    return {"sizes": cheaper.grid(maxima(D), heads=HEADS, head_dim=HEAD_DIMS), **equal}


def panels(frame: pd.DataFrame) -> list[Panel]:
    """The same members along the parameters, along the width, and along the head size."""
    table = _table(frame)
    sizes = table[table["hidden"] == HIDDEN]
    return [
        Panel("against counted parameters", table, across="counted_parameters", lines="heads", enough=D),
        Panel("against the width E", sizes, across="width", lines="heads", enough=D),
        Panel("against numbers per head", sizes, across="head_dim", lines="heads", enough=D),
    ]


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """What one more head does, all else equal, beside what everything else does at h = D − 1."""
    table = _table(frame)
    equal = table[(table["head_dim"] == 8) & (table["hidden"] == table["heads"].map(hidden_for))]
    wide = table[(table["hidden"] == HIDDEN) & (table["width"] == WIDTH)]
    return [
        _fold(f"with {PARAMETERS} counted parameters, from h = {D - 1} to h = {D},", equal, D - 1),
        _fold(f"at the width E = {WIDTH}, from h = {D // 2} to h = {D},", wide, D // 2),
        _no_size_makes_up(frame.drop_duplicates("trial")),
    ]


def _no_size_makes_up(frame: pd.DataFrame) -> Verdict:
    """Over all head sizes, the best seed with D - 1 heads beside the worst seed with D."""
    sizes = frame[frame["hidden"] == HIDDEN]
    fewer, enough = (errors_by(sizes[sizes["heads"] == heads], "head_dim") for heads in (D - 1, D))
    best = min(fewer, key=lambda size: fewer[size].min())
    worst = max(enough, key=lambda size: enough[size].max())
    least, most = float(fewer[best].min()), float(enough[worst].max())
    claim = f"no head size makes up for a head: the best seed of h = {D - 1} loses to the worst of h = {D}"
    evidence = f"{scientific(least)} (n = {best}) against {scientific(most)} (n = {worst})"
    return Verdict(claim, least > most, evidence)


def _table(frame: pd.DataFrame) -> pd.DataFrame:
    table = summarise(frame.drop_duplicates("trial"), by=CELL)
    return table.assign(width=table["heads"] * table["head_dim"])


def _fold(what: str, table: pd.DataFrame, below: int) -> Verdict:
    errors = table.set_index("heads")[list(STATISTICS)]
    folds = (errors.loc[below] / errors.loc[D]).to_numpy(float)
    named = zip(STATISTICS.values(), folds.tolist(), strict=True)
    evidence = ", ".join(f"{words} {fold(ratio, 1)}" for words, ratio in named)
    claim = f"{what} the error falls at least 100-fold, by any statistic"
    return Verdict(claim, bool((folds >= 100).all()), f"{evidence}; {table['seeds'].min():.0f} seeds")


ITEM = Item(
    "rivals",
    "Heads, head size, width or parameters?",
    "The same members drawn against each of the rival explanations, at one length.",
    grids=grids,
    panels=panels,
    judge=judge,
)
