"""How many tokens of a sequence matter: over the sequences, and with more of them."""

import altair as alt
import numpy as np
from jaxtyping import Float

from headcount.estimate.salience import QUANTILE
from headcount.report.theme import BESIDE, INK, MAIN, calm

PERCENTILE = f"{100 * QUANTILE:.0f}th percentile"
Counts = Float[np.ndarray, " sample"]


def salience_chart(counts: Counts, *, dimension: int | None) -> alt.LayerChart:
    """The distribution over sequences of the number of tokens that matter."""
    values, times = np.unique(counts, return_counts=True)
    rows = [
        {"tokens": int(value), "share": float(count / len(counts))}
        for value, count in zip(values, times, strict=True)
    ]
    shown = [*values, *([dimension] if dimension else [])]
    every = list(range(int(min(shown)), int(max(shown)) + 1))
    tokens = alt.X(
        "tokens:O",
        title="tokens that matter",
        scale=alt.Scale(domain=every),
        axis=alt.Axis(labelAngle=0, labelOverlap="greedy"),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=tokens,
        y=alt.Y("share:Q", title="share of sequences", axis=alt.Axis(format="%")),
        tooltip=["tokens:O", alt.Tooltip("share:Q", format=".1%")],
    )
    layers: list[alt.Chart] = [base.mark_bar(color=MAIN)]
    if dimension:
        mark = alt.Chart(alt.InlineData(values=[{"tokens": dimension}]))
        layers.append(mark.mark_rule(strokeDash=[4, 4], color=INK, opacity=0.6).encode(x="tokens:O"))
    return calm(
        alt.LayerChart(layer=layers, height=200, description="Number of tokens that matter")
    ).properties(width="container")


def convergence_chart(counts: Counts) -> alt.Chart:
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
                scale=alt.Scale(domain=["mean", PERCENTILE], range=[MAIN, BESIDE]),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["which:N", "sequences:Q", alt.Tooltip("tokens:Q", format=".2f")],
        )
    ).properties(width="container")
