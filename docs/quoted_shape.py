"""Quotes of shapes: laws, the maps they are held against, weights that were built, collisions."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module

import pandas as pd
from quoted_theory import promised
from quoting import NOT_RUN, RESULTS, read_json, table, verdict_table

from headcount.report.map_panel import MapPanel
from headcount.reproduce.item import MAPS
from headcount.reproduce.maps.cell import LENGTH, WIDTH
from headcount.reproduce.maps.judging import LEARNT, Law, agreement
from headcount.reproduce.page import columns, written
from headcount.reproduce.recipe import FULL
from headcount.results.numbers import scientific

VERDICTS = ("not learnt", "cannot tell", "learnt", "not judged")
KINDS = {"bowls": "bowls", "bowls_product": "products of bowls", "pre-norm": "sums, pre-norm"}


def cells_of(name: str) -> str:
    """The verdicts on every law of a map, and its cells, folded away."""
    item, rows = MAPS[name], map_rows(name)
    if rows.empty:
        return NOT_RUN
    trained, cells = set(rows["variant"]), item.cells(FULL)
    share = (
        f"{len(trained & set(cells))} of {len(cells)} cells were trained, {rows['trial'].nunique()} members"
    )
    lines = [f"({share} on {'; '.join(sorted(set(rows['device'])))}.)", "", verdict_table(item.judge(rows))]
    lines += ["", "<details><summary>All cells</summary>"]
    for panel in item.panels(rows):
        lines += ["", f"{panel.title}:", "", table(columns(panel), written(panel))]
    return "\n".join([*lines, "", "</details>"])


def laws() -> str:
    """Of every law how many judged cells agree with it, and with its rivals."""
    rows = []
    for law, cells in cells_by_law():
        agree = agreement(cells)
        right, of = agree.get(law.rival, (0, 0))
        others = {rival: found for rival, found in agree.items() if rival != law.rival}
        beside = "; ".join(f"{rival}: {found[0]}" for rival, found in others.items()) or "–"
        unclear = [(cells["verdict"] == word).sum() for word in ("cannot tell", "not judged")]
        rows.append((law.title, of, f"**{right}**", beside, *unclear))
    names = ("law", "judged", "agree", "of these agree with rivals", "cannot tell", "not judged")
    return table(names, rows) if rows else NOT_RUN


def shapes() -> str:
    """How many shapes were built and refused, and how close the worst input comes to the bound."""
    found = read_json("shapes.json")
    rows = []
    for reading in ("last", "every", "last token"):
        for outer in ("sum", "product"):
            for sighted in (False, True):
                some = [
                    row
                    for row in found["rows"]
                    if (row["reading"], row["outer"], row["sighted"]) == (reading, outer, sighted)
                ]
                built = [row for row in some if "refused" not in row]
                if built:
                    worst = max(row["measured_error"] for row in built)
                    ratio = max(row["measured_error"] / promised(row) for row in built)
                    kind = "positions and feed-forward" if sighted else "neither"
                    largest = max(row["dimension"] for row in built)
                    cells = (len(built), largest, scientific(worst), f"{ratio:.2f}", len(some) - len(built))
                    rows.append((reading, outer, kind, *cells))
    names = ("read", "F_0", "sees", "built", "largest D", "worst error", "/ bound or estimate", "refused")
    return f"{table(names, rows)}\n\n(ε = 0.009 everywhere. {found['machine']}.)"


def deep_collisions() -> str:
    """The largest gap of targets at one representation, at the capacity and beyond it."""
    if not (RESULTS / "deep_collisions.json").exists():
        return NOT_RUN
    found = read_json("deep_collisions.json")
    rows = [
        (
            each["trained_on"],
            each["dimension"],
            ", ".join(scientific(member["test_error"]) for member in each["members"]),
            f"{each['agreed']} of {each['tried']}",
            ", ".join(f"{member['inside']['target_gap']:.2g}" for member in each["members"]),
            f"**{each['median_largest_gap']:.2g}**",
        )
        for each in found["found"]
    ]
    names = ("trained on", "D", "NMSE of three seeds", "pairs brought together", "largest gaps", "median")
    ratios = ", ".join(f"{ratio:.0f} trained on {name}" for name, ratio in found["ratio"].items())
    same = f"relative gap of representations at most {found['tolerance']:g}"
    text = f"Gaps of targets in standard deviations; {same}."
    return f"{table(names, rows)}\n\n{text}\nRatio of the medians: {ratios}. ({found['machine']}.)"


def beyond() -> str:
    """Cells with one D more than the law grants: the best member and the typical one.

    A law by which none of them is learnt, nor half-way, has one row; others have one for each kind, L and h.
    """
    rows = []
    for law, cells in cells_by_law():
        chosen = at_distance(law, cells, 1)
        if chosen.empty:
            continue
        sharp = chosen["verdict"].isin(("not learnt",)).all()
        groups = [(("all", "all", "all"), chosen)] if sharp else chosen.groupby(["kind", "layers", "heads"])
        for shape, group in groups:
            counts = [(group["verdict"] == word).sum() for word in VERDICTS]
            lowest = (_lowest(group[column]) for column in ("p", "typical"))
            rows.append((law.title, *shape, *counts, *lowest))
    names = ("law", "on", "L", "h", *VERDICTS, "lowest p", "lowest p of a median")
    return table(names, rows)


def _lowest(values: "pd.Series[float]") -> str:
    return "–" if values.isna().all() else f"{values.min():.2f}"


def at_the_limit() -> str:
    """Cells with just the D that the law grants: how many were learnt by the best member, and the median."""
    rows = []
    for law, cells in cells_by_law():
        chosen = at_distance(law, cells, 0)
        chosen = chosen[chosen["verdict"] != "not judged"]
        if len(chosen):
            learnt = [sum(chosen[column] < LEARNT) for column in ("p", "typical")]
            rows.append((law.title, len(chosen), *learnt, f"{chosen['typical'].max():.2f}"))
    return table(("law", "cells", "best learnt", "median learnt", "highest p of a median"), rows)


def exceptions() -> str:
    """Judged cells that came out otherwise than their law says, by name."""
    rows = [
        (law.title, *cell)
        for law, cells in cells_by_law()
        if not of_weights(law)
        for cell in against(law, cells)
    ]
    return table(("law", "cell", "grants", "verdict", "p"), rows)


def unreached() -> str:
    """Judged cells that weights exist for and that training did not reach."""
    rows = [cell for law, cells in cells_by_law() if of_weights(law) for cell in against(law, cells)]
    return table(("cell", "weights exist for", "verdict", "p"), rows)


def of_weights(law: Law) -> bool:
    """Whether it says which weights exist, and not what training reaches."""
    return law.title.endswith("what weights exist for")


def against(law: Law, cells: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    """The judged cells that came out otherwise."""
    for row in cells.to_dict(orient="records"):
        granted = row["predicted"][law.rival]
        if row["verdict"] == ("not learnt" if row["dimension"] <= granted else "learnt"):
            yield row["cell"], granted, row["verdict"], f"{row['p']:.2f}"


def at_distance(law: Law, cells: pd.DataFrame, above: int) -> pd.DataFrame:
    """The cells with so many D more than the law grants, and their kind."""
    rows = [
        {**row, "kind": KINDS.get(row["family"].rpartition(", ")[2], "sums")}
        for row in cells.to_dict(orient="records")
        if row["dimension"] == row["predicted"][law.rival] + above
    ]
    return pd.DataFrame(rows)


def cells_by_law() -> Iterator[tuple[Law, pd.DataFrame]]:
    """Every law with its cells, those of each map one after the other."""
    for name, item in MAPS.items():
        cells = item.table(map_rows(name))
        for law in import_module(f"headcount.reproduce.maps.{name}").LAWS:
            of_law = cells[cells["family"].isin(law.families)]
            if len(of_law):
                yield law, of_law


def plain_panels() -> Iterator[MapPanel]:
    """Laws 3 and 4 over the plain cells: one width, one length, the usual steps."""
    for panel in MAPS["depth"].panels(map_rows("depth")):
        assert isinstance(panel, MapPanel)
        cells = panel.table
        usual = (cells["width"] == WIDTH) & (cells["length"] == LENGTH) & (cells["steps"] == 1)
        if panel.title[:1] in "34":
            yield replace(panel, table=cells[usual & cells["family"].isin(("last", "every"))])


@cache
def map_rows(name: str) -> pd.DataFrame:
    """The rows of a map, as many as were trained."""
    path, item = RESULTS / "maps.parquet", MAPS[name]
    frame = pd.read_parquet(path) if path.exists() else None
    return pd.DataFrame() if frame is None else item.rows(frame, FULL.with_seeds(item.seeds))
