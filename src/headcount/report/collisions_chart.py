"""What models cannot tell apart: the target gap at one representation, and the slope that would be needed."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from headcount.report.colours import head_colours

WIDTH, HEIGHT = 330, 300
INSIDE, ANYWHERE = "like the data", "anywhere"
_FLOOR = 1e-6
_TEXT: dict[str, Any] = {
    **{"labelColor": "currentColor", "labelFontSize": 12},
    **{"titleColor": "currentColor", "titleFontSize": 12, "titleFontWeight": "normal"},
}


def collisions_chart(found: Sequence[dict[str, Any]], *, dimension: int, title: str) -> alt.HConcatChart:
    """Two panels over the heads, a line per length: the gap, and the Lipschitz constant that it asks for.

    Full lines are pairs like the data, broken ones pairs anywhere; a rule marks h = D. `found` is a list of
    rows as `Collisions.to_json` writes them.
    """
    rows = [
        {
            "heads": row["heads"],
            "length": row["length"],
            "where": where,
            "gap": max(row[key]["target_gap"], _FLOOR),
            "lipschitz": max(row[key]["lipschitz_at_least"], _FLOOR),
        }
        for row in found
        for key, where in (("inside", INSIDE), ("anywhere", ANYWHERE))
    ]
    chart: alt.HConcatChart = (
        alt.HConcatChart(
            hconcat=[
                _panel(rows, "gap", "target gap at one representation, in deviations", dimension),
                _panel(rows, "lipschitz", "Lipschitz constant that a readout would need, at least", dimension),
            ],
            spacing=36,
            title=alt.TitleParams(
                text=f"Two sequences, one representation, two targets: {title}",
                subtitle="Below D heads a model cannot see large differences; from D heads on it sees them.",
                fontSize=14,
                subtitleFontSize=12,
                anchor="start",
                offset=14,
            ),
            description="The largest target gap at equal representation, by number of heads and length",
        )
        .configure(background="transparent", font="system-ui, sans-serif", padding=8)
        .configure_axis(**_TEXT, gridOpacity=0.25, labelPadding=6, titlePadding=8)
        .configure_legend(**_TEXT)
        .configure_title(color="currentColor", subtitleColor="currentColor")
        .configure_view(stroke=None)
    )
    return chart


def _panel(rows: list[dict[str, Any]], value: str, title: str, dimension: int) -> alt.LayerChart:
    lengths = sorted({row["length"] for row in rows})
    label = f"datum.value === {dimension} ? datum.label + ' = D' : datum.label"
    heads = alt.X("heads:O", title="heads h", axis=alt.Axis(labelAngle=0, labelExpr=label))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=heads,
        y=alt.Y(
            f"{value}:Q", title=title, scale=alt.Scale(type="log"), axis=alt.Axis(format=".0e", tickCount=8)
        ),
        color=alt.Color(
            "length:O",
            title="length T",
            scale=alt.Scale(domain=lengths, range=head_colours(below=0, enough=len(lengths))),
        ),
        strokeDash=alt.StrokeDash(
            "where:N",
            title="both sequences",
            scale=alt.Scale(domain=[INSIDE, ANYWHERE], range=[[1, 0], [5, 4]]),
        ),
        tooltip=["heads:O", "length:O", "where:N", alt.Tooltip(f"{value}:Q", format=".3g")],
    )
    enough = (
        alt.Chart(alt.InlineData(values=[{"heads": dimension}]))
        .mark_rule(strokeDash=[2, 3], opacity=0.5, color="currentColor")
        .encode(x=alt.X("heads:O", title="heads h"))
    )
    return alt.LayerChart(
        layer=[enough, base.mark_line(strokeWidth=2), base.mark_point(size=50, filled=True, opacity=1)],
        width=WIDTH,
        height=HEIGHT,
    )
