"""Fills the quoted parts of the README and the docs, and their pictures, from committed results: `make docs`.

A quoted part stands between `<!-- quote: NAME -->` and `<!-- end -->`. With `--check` nothing is written
and the exit code says whether anything is out of date.
"""

import argparse
import re
import sys
from collections.abc import Callable
from functools import partial

import quoted_apart
import quoted_inspect_vit
import quoted_paper
import quoted_real
from quoted_checks import planted_heads, promise
from quoted_cluster import cluster, ten_million
from quoted_corners import corners_chart
from quoted_estimate import calibration, dimension, estimated, exactness, law_fit, other_kinds, suite
from quoted_grouping import grouping
from quoted_half import half, minilm_distilled, minilm_rules
from quoted_in_short import in_short
from quoted_items import ALL_ITEMS, known_rows, reproduced, rows_of
from quoted_open import OPEN, answers_of, cells_of_open, one_head, open_in_short, rescaled, tournament
from quoted_reversal import reversal_grids
from quoted_shape import (
    at_the_limit,
    beyond,
    cells_of,
    deep_collisions,
    exceptions,
    laws,
    map_rows,
    plain_panels,
    shapes,
    unreached,
)
from quoted_speed import engine, growth_chart, peers, vit
from quoted_theory import built, collisions, constructions, density, heads_needed, rates
from quoted_trained import minilm, minilm_cuda, minilm_shares, minilm_way
from quoting import ROOT, read_json

from headcount.report.collisions_chart import collisions_chart
from headcount.report.page import error_against_length
from headcount.report.panel_chart import panels_chart
from headcount.report.rendering import save_chart
from headcount.reproduce.item import MAPS

QUOTES: dict[str, Callable[[], str]] = {
    "demo": partial(estimated, "demo"),
    "digits": partial(estimated, "digits"),
    "dimension": partial(dimension, "dimension"),
    "dimension_cpu": partial(dimension, "dimension-cpu"),
    "density_2": partial(density, "density-2"),
    **{quote.__name__: quote for quote in (exactness, other_kinds, calibration, law_fit, vit, engine, peers)},
    **{
        quote.__name__: quote
        for quote in (constructions, collisions, built, density, rates, heads_needed, cluster, ten_million)
    },
    **{f"reproduced_{name}": partial(reproduced, name) for name in ALL_ITEMS},
    **{f"cells_{name}": partial(cells_of, name) for name in MAPS},
    **{
        f"suite_{name.replace('-', '_')}": partial(suite, name)
        for name in ("before-cpu", "mending-cpu", "held-out-cpu", "held-out")
    },
    **{
        quote.__name__: quote
        for quote in (laws, beyond, at_the_limit, exceptions, unreached, shapes, deep_collisions)
    },
    **{quote.__name__: quote for quote in (minilm, minilm_way, minilm_cuda, minilm_shares)},
    **{quote.__name__: quote for quote in (grouping, planted_heads, promise)},
    **{
        quote.__name__: quote
        for quote in (in_short, *quoted_paper.QUOTES, *quoted_real.QUOTES, reversal_grids)
    },
    **{quote.__name__: quote for quote in (rescaled, one_head, tournament, open_in_short)},
    **{quote.__name__: quote for quote in quoted_apart.QUOTES},
    **{quote.__name__: quote for quote in (half, minilm_distilled, minilm_rules)},
    "inspect_vit": quoted_inspect_vit.models,
    **{f"inspect_vit_{name}": partial(quoted_inspect_vit.step, name) for name in quoted_inspect_vit.STEPS},
    **{f"open_{name}": partial(cells_of_open, name) for name in OPEN},
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
    if (growth := growth_chart()) is not None:
        save_chart(growth, docs / "growth.svg")
    save_chart(corners_chart(), docs / "reproduced" / "corners.svg")
    save_chart(panels_chart(quoted_real.shape_panels()), docs / "reproduced" / "real.svg")
    (docs / "shape").mkdir(exist_ok=True)
    for name, map_item in MAPS.items():
        rows = map_rows(name)
        if len(rows) and (panels := map_item.panels(rows)):
            save_chart(panels_chart(panels), docs / "shape" / f"{name}.svg")
    save_chart(panels_chart(list(plain_panels())), docs / "shape" / "readme.svg")


if __name__ == "__main__":
    main()
