"""Where each head attends: a map for each of a few sequences, as wide as there is room."""

import altair as alt
import numpy as np
from jaxtyping import Float

from headcount.report.theme import MAIN, calm

ROW_HEIGHT, MAX_TICKS = 26, 8


def attention_chart(weights: Float[np.ndarray, "head token"], *, name: str) -> alt.Chart:
    """The weights of every head over the tokens of one sequence; the page says what the colours mean."""
    heads, length = weights.shape
    rows = [
        {"head": head + 1, "token": token + 1, "weight": round(float(weight), 4)}
        for head, row in enumerate(weights)
        for token, weight in enumerate(row)
    ]
    ticks = list(range(1, length + 1, -(-length // MAX_TICKS)))
    chart = alt.Chart(alt.InlineData(values=rows), title=name, description=f"Attention of each head, {name}")
    return calm(
        chart.mark_rect().encode(
            x=alt.X("token:O", title="token", axis=alt.Axis(values=ticks, labelAngle=0, ticks=False)),
            y=alt.Y("head:O", title="head", axis=alt.Axis(ticks=False)),
            color=alt.Color(
                "weight:Q", scale=alt.Scale(domain=[0, 1], range=[f"{MAIN}08", MAIN]), legend=None
            ),
            tooltip=["head:O", "token:O", "weight:Q"],
        )
    ).properties(width="container", height=ROW_HEIGHT * heads)
