"""What is quoted about questions that the paper leaves open.

An item is shown by its full run where all of its members are trained, and by its quick run until then.
"""

import re
from collections.abc import Iterator
from functools import cache

import pandas as pd
from quoting import MARKS, RESULTS, read_json, table, verdict_table

from headcount.reproduce.claims import Verdict
from headcount.reproduce.item import ITEMS
from headcount.reproduce.page import columns, written
from headcount.reproduce.recipe import FULL, QUICK, Recipe
from headcount.results.numbers import scientific

OPEN = ("bounded", "layer_norm", "figure4_data", "deep_readout")
# Of each item what is asked, and the claims that answer it.
ASKED = {
    "bounded": (
        ("under Assumption 1 the error falls 10-fold at D", r"^bounded, (relu|tanh) F: .*falls"),
        ("... and in the same members without bounds", r"^not bounded.*falls"),
        ("under Assumption 1 it grows with T below D", r"^bounded, (relu|tanh) F: .*error grows"),
        ("... and does not from D on", r"^bounded, (relu|tanh) F: .*does not grow"),
        ("with a five-layer F it falls 10-fold at D", r"^bounded, five-layer.*falls"),
        ("... and with a step for F", r"^bounded, step.*falls"),
        ("with either of these it grows with T below D", r"^bounded, (five-layer|step).*error grows"),
    ),
    "deep_readout": (
        ("one head of n = T·d with four hidden layers in F comes near D heads", "with four hidden"),
        ("... and with one hidden layer", "with one hidden"),
    ),
    "figure4_data": (
        ("with 128,000 sequences a larger N helps below D: test errors", r"test data.*falls as N"),
        ("... training errors", r"training data.*falls as N"),
        ("and a longer T needs a larger N: test errors", r"test data.*needs a larger N"),
        ("... training errors", r"training data.*needs a larger N"),
        ("from D on a larger N does not help: test errors", r"test data.*does not help"),
        ("... training errors", r"training data.*does not help"),
    ),
    "layer_norm": (
        ("one layer with layer norm: the error falls most at h = D", r"^L = 1, layer norm.*falls most"),
        ("... two layers: at L·h ≥ D", r"^L = 2, layer norm.*falls most"),
        ("with layer norm it grows with T below that", r", layer norm.*error grows"),
        ("... and without", r", no norm.*error grows"),
    ),
}


def open_in_short() -> str:
    """Every question with how many verdicts say yes, and of which run."""
    rows = []
    for name, questions in ASKED.items():
        for question, claims in questions:
            found = [v.holds for v in _verdicts(name) if re.search(claims, v.claim)]
            rows.append((MARKS[_all(found)], question, _counted(found), _run_of(name)))
    return table(("", "", "verdicts that hold", "run"), rows)


def _all(held: list[bool | None]) -> bool | None:
    return None if not held or (None in held and False not in held) else False not in held


def _counted(held: list[bool | None]) -> str:
    if not held:
        return "not trained yet"
    rest = f", {held.count(None)} undecided" if None in held else ""
    return f"{held.count(True)} of {len(held)}{rest}"


def _run_of(name: str) -> str:
    rows, recipe = _shown(name)
    return "–" if rows.empty else "quick" if recipe.quick else "full"


def answers_of(name: str) -> str:
    """Every verdict of an item: a mark, the claim, and the number that decides."""
    return verdict_table(_verdicts(name))


def _verdicts(name: str) -> list[Verdict]:
    members = members_of(name)
    if members.empty:
        return [Verdict(ITEMS[name].title, None, "not trained yet")]
    return ITEMS[name].judge(members)


def cells_of_open(name: str) -> str:
    """What was trained, and its cells, folded away."""
    members, item = members_of(name), ITEMS[name]
    lines = [f"({' '.join(_trained(name))})"]
    if members.empty:
        return lines[0]
    lines += ["", "<details><summary>All cells</summary>"]
    for panel in item.panels(members):
        lines += ["", f"{panel.title}:", "", table(columns(panel), written(panel))]
    return "\n".join([*lines, "", "</details>"])


def _trained(name: str) -> Iterator[str]:
    rows, recipe = _shown(name)
    for run in (FULL, QUICK):
        done, wanted = _rows(name, run)["trial"].nunique(), len(ITEMS[name].trials(run))
        shown = run is recipe and not rows.empty
        if not (done or shown):
            yield f"Of the {'quick' if run.quick else 'full'} run nothing is trained yet."
            continue
        if not shown:
            if not recipe.quick:
                continue
            yield f"Of the full run {done} of {wanted} members are trained."
            continue
        members = rows.drop_duplicates("trial")
        training = f"{int(members['steps'].max()):,} steps, {members['seed'].nunique()} seeds"
        on = "; ".join(sorted(set(members["device"])))
        which = "quick" if run.quick else "full"
        yield f"{done} of {wanted} members of the {which} run, {training}, on {on}."


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


def one_head() -> str:
    """Weights of one head for D coordinates, by the kind of F."""
    rows = [
        (
            *(row["kind"], row["dimension"], row["length"], row["head_dim"], f"{row['epsilon']:g}"),
            f"{row['parameters']:,}",
            f"{row['largest_entry']:.0e}" if row["largest_entry"] > 10 else f"{row['largest_entry']:.3g}",
            f"{row['error']:.2g}",
            f"{row['bound']:.2g}",
        )
        for row in read_json("open_questions.json")["one_head"]
    ]
    names = ("F", "D", "T", "n", "ε", "counted parameters", "largest entry", "largest error found", "bound")
    return table(names, rows)


def tournament() -> str:
    """The error of weights written into the members of `deep_readout`."""
    rows = [
        (row["length"], " → ".join(map(str, row["readout_hidden"])), f"{row['nmse']:.1e}")
        for row in read_json("open_questions.json")["tournament"]
    ]
    return table(("T", "hidden layers of F", "NMSE of the weights, in float32"), rows)


@cache
def _rows(name: str, recipe: Recipe) -> pd.DataFrame:
    frame = pd.read_parquet(RESULTS / "open_questions.parquet")
    return ITEMS[name].rows(frame, recipe)


def _shown(name: str) -> tuple[pd.DataFrame, Recipe]:
    """The rows of the full run if it is whole, else of the quick run."""
    full = _rows(name, FULL)
    whole = full["trial"].nunique() == len(ITEMS[name].trials(FULL))
    return (full, FULL) if whole else (_rows(name, QUICK), QUICK)


def members_of(name: str) -> pd.DataFrame:
    """The rows of an item that are shown."""
    return _shown(name)[0]
