"""What docs/paper.md quotes on the reversal score: where it turns positive, on every grid of ours."""

from collections.abc import Iterator

import pandas as pd
from quoted_items import known_rows, verdicts_of
from quoted_open import members_of
from quoting import marked, table

from headcount.reproduce import bounded, bowls, figure4, layer_norm
from headcount.reproduce.claims import STATISTICS, Verdict, summarise
from headcount.reproduce.figure3 import TABLES, scores

REAL = {"cifar10": "CIFAR-10", "msmarco": "MS MARCO"}


def grids() -> Iterator[tuple[str, int, pd.DataFrame]]:
    """Every grid of heads and lengths where D is known: its name, what is enough, its rows."""
    tables = known_rows("figure3")
    for name, (_, _, enough) in TABLES.items():
        yield name, enough, tables[tables["variant"] == name]
    yield from _by_hidden("Figure 4", known_rows("figure4"), figure4.D)
    yield from _by_hidden("Figure 4, 128,000 sequences", members_of("figure4_data"), figure4.D)
    on_bowls = known_rows("bowls")
    learnt = bowls.errors_learnt(on_bowls)
    yield "bowls", bowls.D, on_bowls
    yield f"bowls, T ≤ {learnt['length'].max()}", bowls.D, learnt
    rows = members_of("bounded")
    for name, title in bounded.TITLES.items():
        yield title, bounded.D, rows[rows["variant"] == name]
    rows = members_of("layer_norm")
    for (layers, _), name in layer_norm.NAMES.items():
        yield name, layer_norm.FALLS_AT[layers], rows[rows["variant"] == name]


def _by_hidden(title: str, rows: pd.DataFrame, enough: int) -> Iterator[tuple[str, int, pd.DataFrame]]:
    for hidden, members in rows.groupby("hidden"):
        yield f"{title}, N = {hidden}", enough, members


def firsts(rows: pd.DataFrame, enough: int) -> dict[str, int | None] | None:
    """By each statistic the first h with a positive score; None where the grid says nothing of it."""
    heads = set(rows["heads"])
    if rows["length"].nunique() < 3 or not {enough - 1, enough} <= heads or len(heads) < 3:
        return None
    cells = summarise(rows)
    places = list(zip(cells["heads"], cells["length"], strict=True))
    found: dict[str, int | None] = {}
    for column in STATISTICS:
        scored = scores(dict(zip(places, cells[column], strict=True)))
        found[column] = next((count for count, score in scored.items() if score > 0), None)
    return found


def reversal_grids() -> str:
    """The first h with a positive score on every grid, by every statistic."""
    rows, guessed, known = [], [], []
    for name, enough, members in grids():
        found = firsts(members, enough)
        if found is None:
            continue
        guessed += list(found.values())
        known += [enough] * len(found)
        cells = (
            marked(Verdict("", first == enough, ""), "never" if first is None else f"{first}")
            for first in found.values()
        )
        rows.append((name, enough, *cells))
    right = sum(first == enough for first, enough in zip(guessed, known, strict=True))
    early = sum(first is not None and first < enough for first, enough in zip(guessed, known, strict=True))
    total = len(guessed)
    counted = (
        f"Of {len(rows)} grids, each by three statistics, it turns positive at D in {right} of {total}, "
        f"below D in {early},\nand beyond or never in {total - right - early}:"
    )
    names = ("minimum", "median", "selected by validation")
    return (
        f"{counted}\n\n{table(('first h with a positive score', 'should be', *names), rows)}\n\n{_on_real()}"
    )


def _on_real() -> str:
    """On real data, where nobody knows D."""
    parts = []
    for name, title in REAL.items():
        judged = [verdict for verdict in verdicts_of(name) if "reversal score" in verdict.claim]
        positive = sum(verdict.holds is True for verdict in judged)
        parts.append(f"in {positive} of {len(judged)} grids of {title}")
    return f"On real data, where D is not known, it turns positive at some h {' and '.join(parts)}."


QUOTES = (reversal_grids,)
