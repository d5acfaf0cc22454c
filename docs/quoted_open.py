"""What is quoted about questions that the paper leaves open."""

from functools import cache

import pandas as pd
from quoting import RESULTS, read_json, table, verdict_table

from headcount.reproduce.claims import Verdict
from headcount.reproduce.item import ITEMS
from headcount.reproduce.page import columns, written
from headcount.reproduce.recipe import QUICK
from headcount.results.numbers import scientific

OPEN = ("bounded", "layer_norm")


def answers_of(name: str) -> str:
    """Every verdict of an item: a mark, the claim, and the number that decides."""
    members = _members(name)
    if members.empty:
        return verdict_table([Verdict(ITEMS[name].title, None, "not trained yet")])
    return verdict_table(ITEMS[name].judge(members))


def members_of(name: str) -> str:
    """What was trained, and its cells, folded away."""
    members, item = _members(name), ITEMS[name]
    wanted = len(item.trials(QUICK))
    if members.empty:
        return f"(None of the {wanted} members of the quick run is trained yet.)"
    done = members.drop_duplicates("trial")
    training = f"{int(done['steps'].max()):,} steps, {done['seed'].nunique()} seeds"
    on = "; ".join(sorted(set(done["device"])))
    lines = [f"({len(done)} of {wanted} members of the quick run, {training}, on {on}.)"]
    lines += ["", "<details><summary>All cells</summary>"]
    for panel in item.panels(members):
        lines += ["", f"{panel.title}:", "", table(columns(panel), written(panel))]
    return "\n".join([*lines, "", "</details>"])


def rescaled() -> str:
    """Constructions before and after they meet Assumption 1."""
    found = read_json("open_questions.json")
    rows = [
        (
            *(row["task"], row["dimension"], row["length"], f"{row['epsilon']:g}", row["positions"]),
            f"{row['before']['parameters']:,} → {row['after']['parameters']:,}",
            f"{scientific(row['before']['beta'])} → {scientific(row['after']['beta'])}",
            f"{row['before']['largest_entry']:.3g} → {row['after']['largest_entry']:.3g}",
            f"{row['apart']:.0e}",
        )
        for row in found["rescaled"]
    ]
    names = ("task", "D", "T", "ε", "S_i", "counted parameters", "β", "largest entry", "outputs apart")
    return table(names, rows)


@cache
def _members(name: str) -> pd.DataFrame:
    frame = pd.read_parquet(RESULTS / "open_questions.parquet")
    return ITEMS[name].rows(frame, QUICK)
