"""The page of an estimate."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.data.arrays import DataSet
from headcount.estimate.curve import Point
from headcount.estimate.salience import QUANTILE
from headcount.estimate.verdict import Estimate
from headcount.models.architecture import Architecture
from headcount.report.rendering import facts, rendered
from headcount.report.theme import BESIDE, HEADS, INK, MAIN, calm, decades, mark_dimension, plain
from headcount.theory.plan import LAYERS, MEASURED, heads_table

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
        "heads:O", title=HEADS, axis=alt.Axis(labelAngle=0, labelExpr=mark_dimension(dimension), ticks=False)
    )
    base = alt.Chart(alt.InlineData(values=plain(rows))).encode(
        x=heads,
        color=alt.Color(
            "which:N",
            title=None,
            scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values())),
            legend=alt.Legend(orient="top", columns=1, labelLimit=400, symbolOpacity=1),
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
    return calm(
        alt.LayerChart(layer=layers, height=300, description="Error and distance by number of heads")
    ).properties(width="container")


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
    return calm(
        alt.LayerChart(layer=layers, height=200, description="Number of tokens that matter")
    ).properties(width="container")


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
    return calm(
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
    return calm(alt.HConcatChart(hconcat=panels, description="Attention weights of each head"))


USUAL_HEADS = (8, 12)
HEAD_SIZE = 8  # numbers per head in the table of costs, as in the paper


@dataclass(frozen=True, eq=False)
class Pictures:
    """What the page shows beside the curves.

    - `counts`: how many tokens of each sequence matter.
    - `weights`: attention of the recommended member, for a few sequences.
    """

    counts: Float[np.ndarray, " sample"]
    weights: Float[np.ndarray, "sample head token"]


def page_of(
    found: Estimate,
    early: Estimate,
    data: DataSet,
    member: Architecture,
    pictures: Pictures,
    frame: pd.DataFrame,
    *,
    command: str,
) -> partial[str]:
    """The page, to be rendered when it is called for: by then data and models may be gone."""
    return partial(
        rendered,
        "estimate.html",
        title=f"How many heads does {data.name} need?",
        findings=[found.sentence],
        reasons=found.reasons,
        early=early.sentence,
        deciding=deciding_chart(found.errors, found.distances, dimension=found.dimension).to_dict(),
        counts=salience_chart(pictures.counts, dimension=found.dimension).to_dict(),
        convergence=convergence_chart(pictures.counts).to_dict(),
        attention=attention_chart(pictures.weights).to_dict(),
        collisions=found.evidence.get("collisions"),
        length=found.evidence.get("length"),
        deeper=deeper(found),
        costs=list(costs(found, data, member)),
        points=[
            (error, distance, found.probabilities.get(error.heads))
            for error, distance in zip(found.errors, found.distances, strict=True)
        ],
        about=about(data),
        command=command,
        facts=[*facts(frame, failed=int((frame["status"] == "diverged").sum()))],
    )


def deeper(found: Estimate) -> dict[str, Any] | None:
    """The heads that D takes in models of several depths; None where one head is enough, or D unknown."""
    shapes = found.evidence.get("shapes")
    if shapes is None or found.dimension == 1:
        return None
    rows, marks = heads_table(shapes)
    return {"layers": LAYERS, "rows": rows, "marks": marks, "measured": MEASURED}


def about(data: DataSet) -> str:
    """The data in a sentence."""
    learnt = (
        f"{len(data.classes)} labels"
        if data.classes
        else f"targets of {data.output_dim} number{'s' * (data.output_dim > 1)}"
    )
    tokens = "tokens" if data.mask is None else "tokens at most"
    return (
        f"{len(data.x):,} sequences of {data.length} {tokens}, {data.token_dim} features each, with {learnt}."
    )


def costs(found: Estimate, data: DataSet, member: Architecture) -> list[dict[str, Any]]:
    """What the choice costs: parameters and attention, at the recommended and the usual numbers of heads."""
    wanted = {heads for heads in (1, found.recommended_heads, *USUAL_HEADS) if heads is not None}
    rows = []
    for heads in sorted(wanted):
        shape = Architecture(
            token_dim=member.token_dim,
            heads=heads,
            head_dim=HEAD_SIZE,
            output_dim=member.output_dim,
            encoder_hidden=member.encoder_hidden,
            readout_hidden=member.readout_hidden,
        )
        rows.append(
            {
                "heads": heads,
                "recommended": heads == found.recommended_heads,
                "parameters": shape.counted_parameters(),
                "one_query": 2 * data.length * shape.width,
                "all_queries": 2 * data.length**2 * shape.width,
            }
        )
    return rows
