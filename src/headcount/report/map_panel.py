"""A map of cells: shapes down, D across, learnt or not, and how far a law reaches."""

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import altair as alt
import numpy as np
import pandas as pd

from headcount.report.theme import INK, plain
from headcount.results.numbers import scientific

COLOURS = {
    "learnt": "#2d6ee1",
    "cannot tell": "#9aa3ad",
    "not learnt": "#cd5414",
    "not judged": "transparent",
}
COLUMNS = ("shape", "T", "D", "law", "min", "median", "h = D", "h = D - 1", "p", "verdict", "agrees")


@dataclass(frozen=True, eq=False)
class MapPanel:
    """Judged cells, the law that they are held against, and how often each rival agrees with them."""

    title: str
    table: pd.DataFrame
    rival: str
    agreement: Mapping[str, tuple[int, int]]
    shares: bool = False
    page_only: ClassVar = ("T", "median", "h = D", "h = D - 1")  # a terminal has no room for them

    @property
    def tally(self) -> str:
        """How many cells agree with each rival, in a line."""
        parts = [f"{rival}: {right} of {of}" for rival, (right, of) in self.agreement.items()]
        return f"judged cells that agree: {'; '.join(parts)}" if parts else "no cell was judged"

    def labelled(self) -> pd.DataFrame:
        """The table with the shape of every cell in words, and what the law grants it."""
        table = self.table
        several = table["family"].nunique() > 1
        shapes = [
            f"{row['family']}: {_shape(row)}" if several else _shape(row)
            for row in table.to_dict(orient="records")
        ]
        return table.assign(shape=shapes, granted=[bounds[self.rival] for bounds in table["predicted"]])


def map_layers(panel: MapPanel) -> alt.LayerChart:
    """A square for every cell, its p in it, and a line behind the last D that the law grants."""
    table = panel.labelled()
    order = list(dict.fromkeys(table["shape"]))
    low, high = int(table["dimension"].min()), int(table["dimension"].max())
    squares = table.assign(
        written=[f"{p:.2f}" if np.isfinite(p) else "?" for p in table["p"]],
        ink=["white" if word != "not judged" else INK for word in table["verdict"]],
    )[["shape", "dimension", "min", "median", "p", "verdict", "written", "ink", "granted"]]
    y = alt.Y("shape:N", sort=order, title=None, axis=alt.Axis(labelLimit=330, ticks=False, grid=False))
    base = alt.Chart(alt.InlineData(values=plain(squares))).encode(
        x=alt.X(
            "dimension:Q",
            title="D",
            scale=alt.Scale(domain=[low - 0.5, high + 0.5], nice=False),
            axis=alt.Axis(values=list(range(low, high + 1)), format="d", grid=False),
        ),
        y=y,
    )
    cells = base.transform_calculate(left="datum.dimension - 0.46", right="datum.dimension + 0.46").mark_rect(
        cornerRadius=3, stroke=INK, strokeOpacity=0.35, height={"band": 0.86}
    )
    words = list(COLOURS)
    cells = cells.encode(
        x=alt.X("left:Q", title="D"),
        x2="right:Q",
        color=alt.Color(
            "verdict:N",
            title=None,
            scale=alt.Scale(domain=words, range=list(COLOURS.values())),
            legend=alt.Legend(orient="top", symbolStrokeColor=INK),
        ),
        tooltip=[
            "shape:N",
            alt.Tooltip("dimension:O", title="D"),
            alt.Tooltip("min:Q", title="lowest test error", format=".2e"),
            alt.Tooltip("median:Q", title="median", format=".2e"),
            alt.Tooltip("p:Q", format=".2f"),
            "verdict:N",
        ],
    )
    text = base.mark_text(fontSize=11, color=alt.expr("datum.ink")).encode(text="written:N")
    ends = squares.drop_duplicates("shape")[["shape", "granted"]].assign(
        end=lambda rows: rows["granted"].clip(low - 1, high) + 0.5
    )
    law = alt.Chart(alt.InlineData(values=plain(ends))).mark_tick(
        thickness=3, color=INK, orient="vertical", height={"band": 1.0}
    )
    return alt.LayerChart(
        layer=[cells, text, law.encode(x="end:Q", y=y)],
        height=alt.Step(24),
        description=f"{panel.title}: which D each shape learnt; the bar marks {panel.rival}",
    )


def map_rows(panel: MapPanel) -> Iterator[tuple[str, ...]]:
    """Every cell as text."""
    for row in panel.labelled().to_dict(orient="records"):
        clear = row["verdict"] in ("learnt", "not learnt")
        agrees = (row["dimension"] <= row["granted"]) == (row["verdict"] == "learnt")
        yield (
            row["shape"],
            str(row["length"]),
            str(row["dimension"]),
            str(row["granted"]),
            *(scientific(row[name]) for name in ("min", "median", "enough", "too_few")),
            "–" if np.isnan(row["p"]) else f"{row['p']:.2f}",
            row["verdict"],
            ("yes" if agrees else "no") if clear else "–",
        )


def _shape(row: Mapping[Hashable, Any]) -> str:
    """A cell in few words: what differs from the usual is said, the rest is not."""
    shared = f" kv={row['kv_heads']}" if row["kv_heads"] != row["heads"] else ""
    wide = row["heads"] * row["head_dim"] == row["width"] and row["layers"] > 1
    numbers = "" if wide and not shared else f" n={row['head_dim']}"
    extra = [
        f"L={row['layers']} h={row['heads']}{shared}{numbers}",
        f"E={row['width']}",
        *([f"T={row['length']}"] if row["length"] != 16 else []),
        *([f"{row['steps']}× steps"] if row["steps"] != 1 else []),
        *([f"{row['task']} d={row['token_dim']}"] if row["unusual_task"] else []),
    ]
    return " ".join(extra)
