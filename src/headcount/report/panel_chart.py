"""The chart of a panel: the common form of every figure."""

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING

import altair as alt
import pandas as pd

from headcount.report.panel import Panel
from headcount.report.theme import HEADS, LENGTH, Decades, calm, decades, head_colours, mark_dimension, plain

if TYPE_CHECKING:
    from headcount.report.map_panel import MapPanel


HEIGHT = 300
MAX_TICKS = 8
MIN_TOP = 0.01  # of an axis of shares: where all are zero there is an axis too
TITLES = {
    "heads": HEADS,
    "length": LENGTH,
    "hidden": "hidden size N",
    "head_dim": "numbers per head n",
    "counted_parameters": "counted parameters",
    "width": "width E",
}
OURS, OUR_MEAN, PAPER = "ours: minimum over seeds", "ours: mean over seeds", "the paper"
_KINDS = alt.Legend(
    orient="top",
    symbolType="stroke",
    symbolSize=600,
    symbolStrokeColor="gray",
    labelLimit=300,
    columnPadding=30,
)


def panel_chart(panel: "Panel | MapPanel") -> alt.LayerChart:
    """Errors of the best seed, or shares over all, and the spread of the seeds behind as thin bars."""
    return calm(panel_layers(panel)).properties(width="container")


def panels_chart(panels: "Sequence[Panel | MapPanel]") -> alt.ConcatChart:
    """All panels, two in a row, for a file of its own."""
    layers = [panel_layers(panel).properties(width=400, title=panel.title) for panel in panels]
    chart: alt.ConcatChart = calm(alt.concat(*layers, columns=2).resolve_scale(color="independent"))
    return chart


def panel_layers(panel: "Panel | MapPanel") -> alt.LayerChart:
    """The layers of a panel, without the settings of a whole chart."""
    if not isinstance(panel, Panel):
        from headcount.report.map_panel import map_layers

        return map_layers(panel)
    rows = _rows(panel)
    axis = decades(rows["error"])
    bars = _spread(panel, axis)
    shown = rows if panel.shares else rows.assign(error=axis.place(rows["error"]))
    largest = max(rows["error"].max(), bars["high"].max(), MIN_TOP)
    base = alt.Chart(alt.InlineData(values=plain(shown))).encode(
        x=_across(panel),
        y=_share(panel, largest) if panel.shares else axis.axis("error:Q", panel.value),
        color=_colour(panel),
    )
    lines = base.mark_line(strokeWidth=2).encode(
        strokeDash=alt.StrokeDash(
            "whose:N",
            title=None,
            scale=alt.Scale(domain=[_ours(panel), PAPER], range=[[1, 0], [4, 4]]),
            legend=_KINDS if rows["whose"].nunique() > 1 else None,
        )
    )
    points = base.mark_point(size=46, filled=True, opacity=1).encode(
        detail="whose:N",
        tooltip=[
            alt.Tooltip(f"{panel.lines}:O", title=TITLES.get(panel.lines, panel.lines)),
            alt.Tooltip(f"{panel.across}:O", title=TITLES.get(panel.across, panel.across)),
            "whose:N",
            alt.Tooltip("error:Q", title=panel.value, format=".2%" if panel.shares else ".2e"),
        ],
    )
    spread = alt.Chart(alt.InlineData(values=plain(bars))).mark_rule(
        opacity=0.35, strokeWidth=5, strokeCap="round"
    )
    layers = [
        spread.encode(
            x=_across(panel), y=alt.Y("low:Q", title=panel.value), y2="high:Q", color=_colour(panel)
        ),
        lines,
        points,
    ]
    return alt.LayerChart(layer=layers, height=HEIGHT, description=f"{panel.title}: error by {panel.across}")


def _rows(panel: Panel) -> pd.DataFrame:
    columns, which = [panel.across, panel.lines], "mean" if panel.shares else "min"
    ours = panel.table[[*columns, which]].rename(columns={which: "error"}).assign(whose=_ours(panel))
    if "paper" not in panel.table:
        return ours.dropna()
    paper = panel.table[[*columns, "paper"]].rename(columns={"paper": "error"}).assign(whose=PAPER)
    return pd.concat([ours, paper]).dropna()


def _ours(panel: Panel) -> str:
    return OUR_MEAN if panel.shares else OURS


def _spread(panel: Panel, axis: Decades) -> pd.DataFrame:
    """From the minimum to the median over seeds; of shares, a deviation to either side of the mean."""
    bars = panel.table.dropna(subset=["min", "median"])
    if panel.shares:
        return bars.assign(
            low=(bars["mean"] - bars["std"]).clip(lower=0), high=(bars["mean"] + bars["std"]).clip(upper=1)
        )
    return bars.assign(low=axis.place(bars["min"]), high=axis.place(bars["median"]))


def _across(panel: Panel) -> alt.X:
    values = sorted(float(value) for value in panel.table[panel.across].unique())
    title = TITLES.get(panel.across, panel.title)
    if panel.across == "heads" or values[0] <= 0 or values[-1] <= 4 * values[0]:
        label = mark_dimension(panel.enough if panel.across == "heads" else None, words=" is enough")
        return alt.X(f"{panel.across}:O", title=title, axis=alt.Axis(labelAngle=0, labelExpr=label))
    return alt.X(
        f"{panel.across}:Q",
        title=title,
        scale=alt.Scale(type="log", base=2, domain=[values[0] / 1.2, values[-1] * 1.2], nice=False),
        axis=alt.Axis(values=_sparse(values), format="~s" if values[-1] >= 1000 else "~g", grid=False),
    )


def _sparse(values: list[float]) -> list[float]:
    """Few enough of the values, far enough from each other, to be written along an axis.

    >>> _sparse([8, 10, 12, 16, 64])
    [8, 12, 16, 64]
    """
    kept = values[:1]
    for value in values[1:]:
        if log(value / kept[-1]) >= log(values[-1] / values[0]) / MAX_TICKS:
            kept.append(value)
    return kept


def _share(panel: Panel, largest: float) -> alt.Y:
    return alt.Y(
        "error:Q",
        title=panel.value,
        scale=alt.Scale(domain=[0, largest], nice=True),
        axis=alt.Axis(format="%", ticks=False, labelPadding=6),
    )


def _colour(panel: Panel) -> alt.Color:
    values = sorted(panel.table[panel.lines].unique().tolist())
    together = sorted({*values, *panel.among})
    below = len(together) // 2 if panel.shares and len(together) > 4 else 0  # both ramps, to differ more
    if panel.lines == "heads" and panel.enough:
        below = sum(value < panel.enough for value in together)
    colours = dict(zip(together, head_colours(below=below, enough=len(together) - below), strict=True))
    return alt.Color(
        f"{panel.lines}:O",
        title=TITLES.get(panel.lines, panel.lines),
        scale=alt.Scale(domain=values, range=[colours[value] for value in values]),
        legend=alt.Legend(orient="right", symbolType="circle", symbolOpacity=1, symbolStrokeWidth=0),
    )
