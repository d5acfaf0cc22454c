"""What models cannot distinguish: the target gap at one representation, and the slope that it needs."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from headcount.report.theme import HEADS, INK, LENGTH, calm, cell_axis, decades, head_colours, headline

WIDTH, HEIGHT = 330, 300
INSIDE, TYPICAL, ANYWHERE = "like the data, largest", "like the data, median", "anywhere, largest"
DASHES = {INSIDE: [1, 0], TYPICAL: [1, 4], ANYWHERE: [6, 4]}
_FLOOR = 1e-6


def collisions_chart(found: Sequence[dict[str, Any]], *, dimension: int, title: str) -> alt.HConcatChart:
    """Two panels over the heads, a line per length: the gap, and the Lipschitz constant that it asks for.

    Full lines are the largest of pairs like the data, dotted ones their median, broken ones the largest of
    pairs anywhere; a rule marks h = D, or with several layers the fewest heads whose `capacity` is D. `found`
    is a list of rows as `Collisions.to_json` writes them.
    """
    reaching = {row["heads"] for row in found if row.get("capacity", row["heads"]) >= dimension}
    enough = min(reaching, default=dimension)
    rows, medians = [], []
    for row in found:
        place = {"heads": row["heads"], "length": row["length"]}
        for where, pair in ((INSIDE, row["inside"]), (ANYWHERE, row["anywhere"])):
            gap, slope = (max(pair[key], _FLOOR) for key in ("target_gap", "lipschitz_at_least"))
            rows.append({**place, "where": where, "gap": gap, "lipschitz": slope})
        medians.append({**place, "where": TYPICAL, "gap": max(row["inside"]["typical_gap"], _FLOOR)})
    return calm(
        alt.HConcatChart(
            hconcat=[
                _panel(rows + medians, "gap", "target gap at one representation, in deviations", enough),
                _panel(rows, "lipschitz", "Lipschitz constant needed by a readout, at least", enough),
            ],
            spacing=36,
            title=headline(
                f"Two sequences, one representation, two targets: {title}",
                "Too few heads cannot see large differences; D heads can, where they were trained.",
            ),
            description="The largest target gap at equal representation, by number of heads and length",
        )
    )


def _panel(rows: list[dict[str, Any]], value: str, title: str, enough: int) -> alt.LayerChart:
    lengths = sorted({row["length"] for row in rows})
    heads = alt.X("heads:O", title=HEADS, axis=cell_axis(enough, words=" reaches D"))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=heads,
        y=decades(pd.Series([row[value] for row in rows])).axis(f"{value}:Q", title),
        color=alt.Color(
            "length:O",
            title=LENGTH,
            scale=alt.Scale(domain=lengths, range=head_colours(below=0, enough=len(lengths))),
        ),
        tooltip=["heads:O", "length:O", "where:N", alt.Tooltip(f"{value}:Q", format=".3g")],
    )
    rule = (
        alt.Chart(alt.InlineData(values=[{"heads": enough}]))
        .mark_rule(strokeDash=[2, 3], opacity=0.5, color=INK)
        .encode(x=heads)
    )
    lines = base.mark_line(strokeWidth=2).encode(
        strokeDash=alt.StrokeDash(
            "where:N",
            title="pairs of sequences",
            scale=alt.Scale(domain=list(DASHES), range=list(DASHES.values())),
            legend=alt.Legend(symbolType="stroke", symbolSize=600, symbolStrokeColor="gray", labelLimit=200),
        )
    )
    points = base.mark_point(size=40, filled=True, opacity=1).encode(detail="where:N")
    return alt.LayerChart(layer=[rule, lines, points], width=WIDTH, height=HEIGHT)
