"""What a short distillation wins back: the loss of each solution before and after it."""

import altair as alt

from headcount.report.inspected import Inspected, Rise
from headcount.report.inspection_charts import COLOURS, rise_of
from headcount.report.theme import INK, calm

BEFORE, AFTER = "refitted", "distilled"
ROW = 26  # pixels


def recovery_chart(found: Inspected) -> alt.LayerChart | None:
    """Two bars with bounds for each solution that was distilled; None where none was."""
    rows = [
        _row(name, what, rise)
        for name in COLOURS
        for solved in [getattr(found, name)]
        if solved.reported is not None and solved.recovered is not None
        for what, rise in ((BEFORE, solved.reported), (AFTER, solved.recovered))
    ]
    if not rows:
        return None
    y = alt.Y("which:N", title=None, sort=[str(row["which"]) for row in rows])
    data = alt.Chart(alt.InlineData(values=rows))
    tips = [alt.Tooltip(f"{each}:Q", format=".3g") for each in ("rise", "low", "high")]
    bars = data.mark_bar(height=14).encode(
        y=y,
        x=alt.X("rise:Q", title=rise_of(found.measure)),
        color=alt.Color(
            "solution:N", scale=alt.Scale(domain=[*COLOURS], range=[*COLOURS.values()]), legend=None
        ),
        opacity=alt.Opacity(
            "what:N", scale=alt.Scale(domain=[BEFORE, AFTER], range=[0.45, 1.0]), legend=None
        ),
        tooltip=tips,
    )
    bounds = data.mark_rule(color=INK, strokeWidth=1.5).encode(y=y, x="low:Q", x2="high:Q")
    tolerance = (
        alt.Chart(alt.InlineData(values=[{"tolerance": found.tolerance}]))
        .mark_rule(color=INK, strokeDash=[4, 3])
        .encode(x="tolerance:Q")
    )
    words = "Loss of each solution before and after distillation, with the tolerance"
    chart = alt.layer(bars, bounds, tolerance).properties(
        width="container", height=ROW * len(rows), description=words
    )
    return calm(chart)


def _row(solution: str, what: str, rise: Rise) -> dict[str, float | str]:
    numbers = {"rise": rise.mean, "low": rise.low, "high": rise.high}
    return {"solution": solution, "what": what, "which": f"{solution}, {what}", **numbers}
