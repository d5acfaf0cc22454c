"""From the rows of members to a verdict on every cell, and to one on every law."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
import pandas as pd

from headcount.reproduce.claims import Verdict, finished
from headcount.reproduce.maps.cell import Cell

Word = Literal["learnt", "not learnt", "cannot tell", "not judged"]

LEARNT, NOT_LEARNT = 1 / 3, 2 / 3
CLEAR = 30  # e₋ / e₊, below which nothing is judged


@dataclass(frozen=True)
class Law:
    """A law for some families of cells: a shape learns exactly the D up to what `rival` grants it.

    `drawn`: whether it has a panel; one for cells that another law draws need not.
    """

    title: str
    rival: str
    families: tuple[str, ...]
    drawn: bool = True


def place(error: float, enough: float, too_few: float) -> float:
    """P = log(e / e₊) / log(e₋ / e₊): 0 for an error like that of D heads, 1 for one like that of D − 1.

    >>> place(1e-3, 1e-5, 1e-2) > 2 / 3 - 1e-9, place(1e-3, 1e-4, 1e-3)
    (True, nan)
    """
    if not too_few / enough >= CLEAR or not error > 0:
        return np.nan
    return log(error / enough) / log(too_few / enough)


def word(p: float) -> Word:
    """The verdict that p stands for."""
    if np.isnan(p):
        return "not judged"
    return "learnt" if p < LEARNT else "not learnt" if p > NOT_LEARNT else "cannot tell"


def judged(frame: pd.DataFrame, cells: Iterable[Cell]) -> pd.DataFrame:
    """One row per cell that has members: its errors, those of its references, p and the verdict.

    `typical` is p of the median member, held against the median ones of the references.
    """
    members = {str(name): rows for name, rows in finished(frame).groupby("variant")}
    rows = []
    for cell in cells:
        if cell.name not in members:
            continue
        own, enough, too_few = _apart(cell, members)
        p, typical = (
            place(of(own), of(enough), 1.0 if cell.dimension == 1 else of(too_few))
            for of in (_lowest, _median)
        )
        errors = members[cell.name]["test_error"]
        rows.append(
            {
                "cell": cell.name,
                "family": cell.family,
                "layers": cell.layers,
                "heads": cell.heads,
                "kv_heads": cell.kv_heads or cell.heads,
                "head_dim": cell.head_dim,
                "width": cell.width,
                "length": cell.length,
                "steps": cell.steps,
                "task": cell.task.name,
                "token_dim": cell.task.build().token_dim,
                "unusual_task": cell.task.name != "max_sum" or cell.task.build().token_dim < cell.dimension,
                "dimension": cell.dimension,
                "min": errors.min(),
                "median": errors.median(),
                "enough": _lowest(enough),
                "too_few": _lowest(too_few),
                "p": p,
                "typical": typical,
                "verdict": word(p),
                "predicted": dict(cell.predicted),
            }
        )
    return pd.DataFrame(rows)


def verdicts(table: pd.DataFrame, laws: Sequence[Law]) -> list[Verdict]:
    """Of each law that has cells: is what it grants learnt, and is nothing beyond it learnt?"""
    if table.empty:
        return [Verdict(law.title, None, "no member was trained without diverging") for law in laws]
    found = []
    for law in laws:
        cells = table[table["family"].isin(law.families)]
        if len(cells):
            found += [
                _of_cells(law, cells, f"{law.title}: every D up to it is learnt", within=True),
                _of_cells(law, cells, f"{law.title}: no D beyond it is learnt", within=False),
            ]
    return found


def agreement(cells: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Of each rival: with how many judged cells it agrees, of how many."""
    clear = cells[cells["verdict"].isin(("learnt", "not learnt"))] if len(cells) else cells
    found: dict[str, tuple[int, int]] = {}
    for row in clear.to_dict(orient="records"):
        for rival, bound in row["predicted"].items():
            right, of = found.get(rival, (0, 0))
            found[rival] = (right + ((row["dimension"] <= bound) == (row["verdict"] == "learnt")), of + 1)
    return found


def _apart(
    cell: Cell, members: Mapping[str, pd.DataFrame]
) -> tuple[pd.DataFrame, pd.DataFrame | None, pd.DataFrame | None]:
    """The members of a cell and of its two references.

    They are compared over the same seeds, but for a cell that is a reference itself: it is held against other
    seeds than its own, since it would always agree with itself.
    """
    own = members[cell.name]
    names = [cell.reference(heads).name for heads in (cell.dimension, cell.dimension - 1) if heads > 0]
    enough, too_few = (*(members.get(name) for name in names), None)[:2]
    if cell.name in names:
        seeds = {seed for seed in own["seed"] if seed % 2 == 0}
        own = own[own["seed"] % 2 == 1]
    else:
        seeds = set(own["seed"])
    enough, too_few = (
        None if part is None else part[part["seed"].isin(list(seeds))] for part in (enough, too_few)
    )
    return own, enough, too_few


def _lowest(members: pd.DataFrame | None) -> float:
    return np.nan if members is None or members.empty else float(members["test_error"].min())


def _median(members: pd.DataFrame | None) -> float:
    return np.nan if members is None or members.empty else float(members["test_error"].median())


def _of_cells(law: Law, cells: pd.DataFrame, claim: str, *, within: bool) -> Verdict:
    granted = np.array([row[law.rival] for row in cells["predicted"]])
    cells = cells[(cells["dimension"].to_numpy() <= granted) == within]
    clear = cells[cells["verdict"].isin(("learnt", "not learnt"))]
    open_ = len(cells) - len(clear)
    if clear.empty:
        return Verdict(claim, None, f"no cell was judged, {open_} were not clear")
    wanted = "learnt" if within else "not learnt"
    wrong = clear[clear["verdict"] != wanted]
    rest = f", {open_} not clear" if open_ else ""
    evidence = f"{len(clear) - len(wrong)} of {len(clear)} judged cells{rest}"
    if len(wrong):
        named = [f"{row.cell} (p = {row.p:.2f})" for row in wrong.itertuples()]
        evidence += f"; not so: {'; '.join(named)}"
    return Verdict(claim, wrong.empty, evidence)
