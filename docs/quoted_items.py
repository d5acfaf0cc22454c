"""The reproduced tables, figures and experiments: their rows, their verdicts, and every cell."""

from collections.abc import Iterator
from functools import cache

import pandas as pd
from quoted_open import OPEN
from quoting import NOT_RUN, RESULTS, read_json, table, verdict_table

from headcount.reproduce.claims import Verdict
from headcount.reproduce.item import ITEMS, REAL_ITEMS
from headcount.reproduce.page import columns, written
from headcount.reproduce.recipe import FULL

ALL_ITEMS = {**{name: ITEMS[name] for name in ITEMS if name not in OPEN}, **REAL_ITEMS}


@cache
def rows_of(name: str) -> pd.DataFrame | None:
    """An item's rows, where all of its members were trained."""
    if name in REAL_ITEMS:  # benchmarks/real.py writes complete ones alone
        path = RESULTS / f"{name}.parquet"
        return pd.read_parquet(path) if path.exists() else None
    item, frame = ITEMS[name], pd.read_parquet(RESULTS / "reproduce.parquet")
    if {trial.id for trial in item.trials(FULL)} - set(frame["trial"]):
        return None
    return item.rows(frame, FULL)


def known_rows(name: str) -> pd.DataFrame:
    """The rows of an item without which a page would have nothing to say."""
    rows = rows_of(name)
    assert rows is not None, f"{name} was not run in full"
    return rows


@cache
def verdicts_of(name: str) -> tuple[Verdict, ...]:
    """The verdicts on an item, those that took a closer look at the end."""
    closer = read_json(f"{name}.json")["closer"] if name in REAL_ITEMS else ()
    return (*ALL_ITEMS[name].judge(known_rows(name)), *(Verdict(**verdict) for verdict in closer))


def reproduced(name: str) -> str:
    """The verdicts on an item, its picture, and its cells beside the paper's, folded away."""
    item, rows = ALL_ITEMS[name], rows_of(name)
    if rows is None:
        return NOT_RUN
    lines = [verdict_table(verdicts_of(name)), "", f"![{item.title}](reproduced/{name}.svg)", ""]
    lines += ["<details><summary>All cells</summary>"]
    for panel in item.panels(rows):
        lines += ["", f"{panel.title}:", "", table(columns(panel), written(panel))]
    return "\n".join([*lines, "", "</details>"])


def that_say(name: str, what: str) -> Iterator[Verdict]:
    """The verdicts on an item whose claim holds these words; at least one."""
    found = [verdict for verdict in verdicts_of(name) if what in verdict.claim]
    assert found, f"{name}: no verdict says {what!r}"
    yield from found
