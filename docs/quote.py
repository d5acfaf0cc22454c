"""Fills the quoted parts of the README and the docs, and their pictures, from committed results: `make docs`.

A quoted part stands between `<!-- quote: NAME -->` and `<!-- end -->`. With `--check` nothing is written
and the exit code says whether anything is out of date.
"""

import argparse
import re
import sys
from collections.abc import Callable
from functools import cache, partial

import pandas as pd
import quoted_inspect_vit
import quoted_paper
import quoted_real
from quoted_checks import planted_heads, promise
from quoted_cluster import cluster, ten_million
from quoted_corners import corners_chart
from quoted_estimate import dimension, estimated, exactness, other_kinds, suite
from quoted_grouping import grouping
from quoted_in_short import in_short
from quoted_items import ALL_ITEMS, known_rows, reproduced, rows_of
from quoted_open import OPEN, answers_of, members_of, rescaled
from quoted_theory import built, collisions, constructions, density, heads_needed, promised, rates
from quoted_trained import minilm, minilm_shares, minilm_way
from quoting import NOT_RUN, RESULTS, ROOT, read_json, table, verdict_table

from headcount.report.collisions_chart import collisions_chart
from headcount.report.map_panel import MapPanel
from headcount.report.page import error_against_length
from headcount.report.panel import panels_chart
from headcount.report.rendering import save_chart
from headcount.reproduce.item import MAPS
from headcount.reproduce.page import columns, written
from headcount.reproduce.recipe import FULL
from headcount.results.numbers import scientific


def engine() -> str:
    rows = [
        (
            f"{result['machine']}, {result['members']} members",
            _time(result["torch_eager_us"]),
            _time(result["engine_us"]),
            f"**{result['ratio']:.0f}×**",
            f"{result['compile_seconds']:.1f} s",
            f"{result['fraction_of_product_rate']:.1%}",
        )
        for result in map(read_json, ("engine-cpu.json", "engine-gpu.json"))
    ]
    return table(("machine", "eager PyTorch", "this engine", "ratio", "compile", "of the product rate"), rows)


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 1000 else f"{microseconds:.0f} µs"


def map_of(name: str) -> str:
    """The verdicts on every law of a map, and its cells, folded away."""
    item, rows = MAPS[name], _map_rows(name)
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
    for name, item in MAPS.items():
        frame = _map_rows(name)
        for panel in item.panels(frame) if len(frame) else ():
            assert isinstance(panel, MapPanel)
            right, of = panel.agreement.get(panel.rival, (0, 0))
            others = {rival: found for rival, found in panel.agreement.items() if rival != panel.rival}
            beside = "; ".join(f"{rival}: {found[0]}" for rival, found in others.items()) or "–"
            rows.append((panel.title, of, f"**{right}**", beside, len(panel.table) - of))
    names = ("law", "judged cells", "agree", "of these agree with rivals", "not clear")
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


def vit() -> str:
    """A pack of vision transformers beside eager PyTorch: speeds, and how accurate both get."""
    if not (RESULTS / "vit-gpu.json").exists():
        return NOT_RUN
    found = read_json("vit-gpu.json")
    rows = []
    for precision in ("float32", "bfloat16"):
        torch, ours = (found[precision][side] for side in ("torch", "headcount"))
        speeds = [f"{side['images_per_second']:,.0f} images a second" for side in (torch, ours)]
        ratio = f"**{found[precision]['ratio']:.1f}×**"
        rows.append((f"{precision}, {ours['members']} members", *speeds, ratio))
        for split in ("train", "validation"):
            right = [f"{side[split]:.1%}" for side in (torch, ours)]
            rows.append((f"{precision}, {split} accuracy", *right, ""))
    text = table(("", "eager PyTorch", "here", "ratio"), rows).replace("|  |", "| |")
    return f"{text}\n\n({found['machine']}, {found['steps']:,} steps.)"


@cache
def _map_rows(name: str) -> pd.DataFrame:
    """The rows of a map, as many as were trained."""
    path, item = RESULTS / "maps.parquet", MAPS[name]
    frame = pd.read_parquet(path) if path.exists() else None
    return pd.DataFrame() if frame is None else item.rows(frame, FULL.with_seeds(item.seeds))


QUOTES: dict[str, Callable[[], str]] = {
    "demo": partial(estimated, "demo"),
    "digits": partial(estimated, "digits"),
    "dimension": partial(dimension, "dimension"),
    "dimension_cpu": partial(dimension, "dimension-cpu"),
    "density_2": partial(density, "density-2"),
    **{quote.__name__: quote for quote in (exactness, other_kinds, vit, engine, constructions, collisions)},
    **{quote.__name__: quote for quote in (built, density, rates, heads_needed, cluster, ten_million)},
    **{f"reproduced_{name}": partial(reproduced, name) for name in ALL_ITEMS},
    **{f"map_{name}": partial(map_of, name) for name in MAPS},
    **{f"suite_{half.replace('-', '_')}": partial(suite, half) for half in ("before", "mending", "held-out")},
    **{
        quote.__name__: quote
        for quote in (laws, shapes, deep_collisions, minilm, minilm_way, minilm_shares, grouping)
    },
    **{quote.__name__: quote for quote in (planted_heads, promise)},
    **{quote.__name__: quote for quote in (in_short, *quoted_paper.QUOTES, *quoted_real.QUOTES, rescaled)},
    "inspect_vit": quoted_inspect_vit.models,
    **{f"inspect_vit_{name}": partial(quoted_inspect_vit.step, name) for name in quoted_inspect_vit.STEPS},
    **{f"open_{name}": partial(members_of, name) for name in OPEN},
    **{f"answers_{name}": partial(answers_of, name) for name in OPEN},
}


def quoted(text: str) -> str:
    """The text with every quoted part made anew."""
    pattern = re.compile(r"(<!-- quote: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{QUOTES[found[2]]()}\n{found[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for document in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = document.read_text(encoding="utf-8")
        if quoted(text) != text:
            stale.append(str(document.relative_to(ROOT)))
            if not check:
                document.write_text(quoted(text), encoding="utf-8")
    if check:
        sys.exit(f"{', '.join(stale)}: out of date, run `make docs`" if stale else None)
    docs = ROOT / "docs"
    save_chart(error_against_length(known_rows("table2")), docs / "transition.svg", width=720)
    found, title = read_json("collisions.json")["collisions"], "max_sum, D = 4, d = 4"
    save_chart(collisions_chart(found, dimension=4, title=title), docs / "theory" / "collisions.svg")
    (docs / "reproduced").mkdir(exist_ok=True)
    for name, item in ALL_ITEMS.items():
        if (rows := rows_of(name)) is not None:
            save_chart(panels_chart(item.panels(rows)), docs / "reproduced" / f"{item.name}.svg")
    save_chart(corners_chart(), docs / "reproduced" / "corners.svg")
    save_chart(panels_chart(quoted_real.shape_panels()), docs / "reproduced" / "real.svg")
    (docs / "shape").mkdir(exist_ok=True)
    for name, map_item in MAPS.items():
        rows = _map_rows(name)
        if len(rows) and (panels := map_item.panels(rows)):
            save_chart(panels_chart(panels), docs / "shape" / f"{name}.svg")
            if name == "depth":
                wanted = [panel for panel in panels if panel.title[:1] in "34"]
                save_chart(panels_chart(wanted), docs / "shape" / "readme.svg")


if __name__ == "__main__":
    main()
