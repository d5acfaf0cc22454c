"""The charts of an estimate: the deciding curves, how many tokens matter, where heads attend."""

from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.estimate.curve import Point
from headcount.estimate.salience import QUANTILE
from headcount.report.theme import BESIDE, HEADS, INK, MAIN, calm, decades, mark_dimension, plain

PERCENTILE = f"{100 * QUANTILE:.0f}th percentile"
DISTANCE, ERROR = "distance from models with more heads than needed", "test error"
_COLOURS = {DISTANCE: MAIN, ERROR: BESIDE}


def deciding_chart(
    errors: Sequence[Point], distances: Sequence[Point], *, dimension: int | None
) -> alt.LayerChart:
    """Both curves over the heads, with their intervals; a rule marks D."""
    rows = pd.DataFrame(
        [
            {"heads": point.heads, "value": point.value, "low": point.low, "high": point.high, "which": which}
            for which, points in ((DISTANCE, distances), (ERROR, errors))
            for point in points
        ]
    )
    axis = decades(pd.concat([rows["value"], rows["low"][rows["low"] > 0]]))
    for column in ("value", "low", "high"):
        rows[column] = axis.place(rows[column])
    heads = alt.X(
        "heads:O",
        title=HEADS,
        axis=alt.Axis(labelAngle=0, labelExpr=mark_dimension(dimension), ticks=False),
    )
    base = alt.Chart(alt.InlineData(values=plain(rows))).encode(
        x=heads,
        color=alt.Color(
            "which:N",
            title=None,
            scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())),
            legend=alt.Legend(orient="top", labelLimit=400, symbolOpacity=1),
        ),
    )
    value = axis.axis("value:Q", "share of the variance", most=6)
    tooltip = [
        "which:N",
        "heads:O",
        *(alt.Tooltip(f"{column}:Q", format=".2e") for column in ("value", "low", "high")),
    ]
    layers: list[alt.Chart] = [
        base.mark_line(strokeWidth=2).encode(y=value),
        base.mark_rule(strokeWidth=3, opacity=0.4).encode(y=alt.Y("low:Q", scale=axis.scale), y2="high:Q"),
        base.mark_point(size=60, filled=True, opacity=1).encode(y=value, tooltip=tooltip),
    ]
    if dimension:
        mark = alt.Chart(alt.InlineData(values=[{"heads": dimension}]))
        rule = mark.mark_rule(strokeDash=[4, 4], color=INK, opacity=0.5)
        layers.insert(0, rule.encode(x=heads))
    chart: alt.LayerChart = calm(
        alt.LayerChart(layer=layers, height=300, description="Error and distance by number of heads")
    ).properties(width="container")
    return chart


def salience_chart(counts: Float[np.ndarray, " sample"], *, dimension: int | None) -> alt.LayerChart:
    """The distribution over sequences of the number of tokens that matter."""
    values, times = np.unique(counts, return_counts=True)
    rows = [
        {"tokens": int(value), "share": float(count / len(counts))}
        for value, count in zip(values, times, strict=True)
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("tokens:O", title="tokens that matter", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("share:Q", title="share of sequences", axis=alt.Axis(format="%")),
        tooltip=["tokens:O", alt.Tooltip("share:Q", format=".1%")],
    )
    layers: list[alt.Chart] = [base.mark_bar(color=_COLOURS[DISTANCE])]
    if dimension and dimension in values:
        mark = alt.Chart(alt.InlineData(values=[{"tokens": dimension}]))
        layers.append(mark.mark_rule(strokeDash=[4, 4], color=INK, opacity=0.6).encode(x="tokens:O"))
    chart: alt.LayerChart = calm(
        alt.LayerChart(layer=layers, height=200, description="Number of tokens that matter")
    ).properties(width="container")
    return chart


def convergence_chart(counts: Float[np.ndarray, " sample"]) -> alt.Chart:
    """How the number of tokens that matter converges with more sequences."""
    sizes = sorted({*(2**power for power in range(4, 20) if 2**power < len(counts)), len(counts)})
    rows = [
        {"sequences": size, "tokens": float(value), "which": which}
        for size in sizes
        for which, value in (
            ("mean", counts[:size].mean()),
            (PERCENTILE, np.quantile(counts[:size], QUANTILE, method="inverted_cdf")),
        )
    ]
    chart = alt.Chart(alt.InlineData(values=rows), height=130, description="Tokens that matter, converging")
    drawn: alt.Chart = calm(
        chart.mark_line(point=True, strokeWidth=2).encode(
            x=alt.X("sequences:Q", title="sequences", scale=alt.Scale(type="log", base=2)),
            y=alt.Y("tokens:Q", title="tokens that matter", scale=alt.Scale(zero=True)),
            color=alt.Color(
                "which:N",
                title=None,
                scale=alt.Scale(domain=["mean", PERCENTILE], range=list(_COLOURS.values())),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["which:N", "sequences:Q", alt.Tooltip("tokens:Q", format=".2f")],
        )
    ).properties(width="container")
    return drawn


def attention_chart(weights: Float[np.ndarray, "sample head token"]) -> alt.HConcatChart:
    """Where each head attends, one panel per sequence."""
    panels = []
    for place, sequence in enumerate(weights):
        rows = [
            {"head": head + 1, "token": token + 1, "weight": round(float(weight), 4)}
            for head, row in enumerate(sequence)
            for token, weight in enumerate(row)
        ]
        chart = alt.Chart(alt.InlineData(values=rows), title=f"sequence {place + 1}").mark_rect()
        panels.append(
            chart.encode(
                x=alt.X("token:O", title="token", axis=alt.Axis(labels=False, ticks=False)),
                y=alt.Y("head:O", title="head" if place == 0 else None),
                color=alt.Color(
                    "weight:Q",
                    scale=alt.Scale(domain=[0, 1], range=[f"{MAIN}08", MAIN]),
                    legend=alt.Legend(title="weight"),
                ),
                tooltip=["head:O", "token:O", "weight:Q"],
            ).properties(width=220, height=24 * weights.shape[1])
        )
    chart = alt.HConcatChart(hconcat=panels, description="Attention weights of each head")
    made: alt.HConcatChart = calm(chart)
    return made
