"""Both curves of an estimate over the number of heads: where the distance stops falling is D."""

from collections.abc import Iterator

import altair as alt
import pandas as pd

from headcount.estimate.verdict import Estimate
from headcount.report.theme import BESIDE, HEADS, INK, MAIN, Decades, calm, decades, mark_dimension, plain

DISTANCE, ERROR, LOSS = "distance from models with many heads", "test error", "test log loss"
OF_NUMBERS, OF_LABELS = "error, share of the variance", "log loss, share of that of guessing"
HOLLOW = "hollow: first look only"
MAX_TICKS = 16
NUMBERS = ("value", "low", "high")
COLUMNS = ("heads", *NUMBERS, "which", "full")


def deciding_chart(found: Estimate) -> alt.LayerChart:
    """Both curves with their intervals; a rule marks D, hollow marks are head counts not trained in full."""
    error = LOSS if found.labels else ERROR
    rows = pd.DataFrame(_rows(found, error), columns=COLUMNS).astype(dict.fromkeys(NUMBERS, float))
    axis = decades(pd.concat([rows["value"], rows["low"][rows["low"] > 0]]))
    for column in NUMBERS:
        rows[column] = axis.place(rows[column])
    layers = _layers(rows, axis, found, error)
    if found.dimension:
        mark = alt.Chart(alt.InlineData(values=[{"heads": found.dimension}]))
        rule = mark.mark_rule(strokeDash=[4, 4], color=INK, opacity=0.5)
        layers.insert(0, rule.encode(x="heads:Q"))
    return calm(
        alt.LayerChart(layer=layers, height=300, description="Error and distance by number of heads")
    ).properties(width="container", title=_note(rows))


def _rows(found: Estimate, error: str) -> Iterator[tuple[object, ...]]:
    """A row for each mark; of head counts that were not trained in full, what the first look saw."""
    in_full = {point.heads for point in found.errors}
    curves = ((DISTANCE, found.distances, found.early_distances), (error, found.errors, found.early_errors))
    for which, points, early in curves:
        for point in (*points, *(point for point in early if point.heads not in in_full)):
            yield (point.heads, point.value, point.low, point.high, which, point.heads in in_full)


def _layers(rows: pd.DataFrame, axis: Decades, found: Estimate, error: str) -> list[alt.Chart]:
    most = max(rows["heads"], default=1)
    ticks = list(range(1, most + 1, -(-most // MAX_TICKS)))
    base = alt.Chart(alt.InlineData(values=plain(rows))).encode(
        x=alt.X(
            "heads:Q",
            title=HEADS,
            scale=alt.Scale(domain=[1, most], nice=False, padding=16),
            axis=alt.Axis(
                values=sorted({*ticks, found.dimension or 1}),
                format="d",
                grid=False,
                labelExpr=mark_dimension(found.dimension),
            ),
        ),
        color=alt.Color(
            "which:N",
            title=None,
            scale=alt.Scale(domain=[DISTANCE, error], range=[MAIN, BESIDE]),
            legend=alt.Legend(orient="top", columns=1, labelLimit=400, symbolOpacity=1),
        ),
    )
    value = axis.axis("value:Q", OF_LABELS if found.labels else OF_NUMBERS, most=6)
    numbers = (alt.Tooltip(f"{column}:Q", format=".1e") for column in NUMBERS)
    tooltip = ["which:N", "heads:Q", *numbers]
    in_full = base.transform_filter("datum.full")
    layers: list[alt.Chart] = [
        in_full.mark_line(strokeWidth=2).encode(y=value),
        in_full.mark_rule(strokeWidth=3, opacity=0.4).encode(y=alt.Y("low:Q", scale=axis.scale), y2="high:Q"),
        in_full.mark_point(size=60, filled=True, opacity=1).encode(y=value, tooltip=tooltip),
    ]
    if not rows["full"].all():
        hollow = base.transform_filter("!datum.full").mark_point(size=50, filled=False, opacity=1)
        layers.append(hollow.encode(y=value, tooltip=tooltip))
    return layers


def _note(rows: pd.DataFrame) -> alt.TitleParams:
    hollow = "" if rows["full"].all() else HOLLOW
    return alt.TitleParams(text=hollow, anchor="end", orient="bottom", fontSize=11, fontWeight="normal")
