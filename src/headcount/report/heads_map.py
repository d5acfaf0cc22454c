"""The map of heads: layers down, heads across, and which of them a solution keeps."""

from collections.abc import Iterator
from typing import Any

import altair as alt

from headcount.report.inspected import Keeps, Places, Planned
from headcount.report.loss_panel import stride_of
from headcount.report.theme import INK, calm, head_colours

KEPT, REMOVED = "kept", "removed"
ROW_HEIGHT, MIN_ROW_HEIGHT, MAX_HEIGHT = 24, 9, 480
LETTER = 12  # pixels that a line of text needs
MAX_TICKS = 12
MAX_WRITTEN = 16  # heads in a row: more have no room for a text
COUNT_ROOM = 0.16  # of the width, for the counts at the right


def heads_map(
    plan: Planned, solution: Keeps, *, title: str, colour: str, groups: tuple[Places, ...] | None = None
) -> alt.LayerChart:
    """A cell for every head, filled where it is kept: all in one colour, or each group in its own."""
    most = max(shape.heads for shape in plan.layers)
    height = min(max(MAX_HEIGHT // len(plan.layers), MIN_ROW_HEIGHT), ROW_HEIGHT)
    cells, x, y = list(_cells(plan, solution, groups)), _across(most), _down(len(plan.layers), height)
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=x, x2="right:Q", y=y, tooltip=["layer:O", "head:O", "what:N", *_group_tip(cells)]
    )
    outlines = base.transform_filter("!datum.kept").mark_rect(
        fill="transparent", stroke=INK, strokeOpacity=0.3, strokeWidth=1, cornerRadius=2
    )
    filled = base.transform_filter("datum.kept").mark_rect(cornerRadius=2)
    layers = [outlines, filled.encode(color=_colour(cells, colour))]
    if height >= LETTER:
        layers.append(_counts(plan, solution, most, y))
    if groups is not None and height >= LETTER and most <= MAX_WRITTEN:
        layers.append(_written(cells, y))
    chart = alt.LayerChart(
        layer=layers, title=title, height=height * len(plan.layers), description=f"Heads by layer: {title}"
    )
    return calm(chart).properties(width="container")


def _across(most: int) -> alt.X:
    """Heads, with room for the counts."""
    values = list(range(0, most, stride_of(most, -(-most // MAX_TICKS))))
    return alt.X(
        "left:Q",
        title="head",
        scale=alt.Scale(domain=[-0.5, (1 + COUNT_ROOM) * most - 0.5], nice=False),
        axis=alt.Axis(values=values, format="d", grid=False, ticks=False),
    )


def _down(layers: int, height: int) -> alt.Y:
    return alt.Y(
        "layer:O",
        title="layer",
        axis=alt.Axis(ticks=False, values=list(range(0, layers, -(-LETTER // height)))),
        scale=alt.Scale(paddingInner=0.14, paddingOuter=0.05),
    )


def _cells(plan: Planned, solution: Keeps, groups: tuple[Places, ...] | None) -> Iterator[dict[str, Any]]:
    """Cells of one key-value head stand close together."""
    for layer, (shape, kept) in enumerate(zip(plan.layers, solution.kept, strict=True)):
        group_of = {} if groups is None else _group_of(groups[layer])
        size = max(shape.heads // shape.kv_heads, 1)
        for head in range(shape.heads):
            first, last = head % size == 0, head % size == size - 1
            yield {
                "layer": layer,
                "head": head,
                "kept": head in kept,
                "what": KEPT if head in kept else REMOVED,
                "group": group_of.get(head),
                "left": head - (0.4 if first else 0.49),
                "right": head + (0.4 if last else 0.49),
            }


def _group_of(groups: Places) -> dict[int, int]:
    return {head: number for number, group in enumerate(groups) for head in group}


def _group_tip(cells: list[dict[str, Any]]) -> list[alt.Tooltip]:
    grouped = any(cell["group"] is not None for cell in cells)
    return [alt.Tooltip("group:N", title="key-value head")] if grouped else []


def _colour(cells: list[dict[str, Any]], plain: str) -> Any:
    groups = sorted({cell["group"] for cell in cells if cell["group"] is not None})
    if not groups:
        return alt.value(plain)
    colours = head_colours(below=0, enough=len(groups))
    return alt.Color("group:O", scale=alt.Scale(domain=groups, range=colours), legend=None)


def _counts(plan: Planned, solution: Keeps, most: int, y: alt.Y) -> alt.Chart:
    """How many are kept, at the end of each row."""
    rows = [
        {"layer": place, "head": (1 + COUNT_ROOM / 4) * most - 0.5, "kept": f"{kept} of {shape.heads}"}
        for place, (kept, shape) in enumerate(zip(solution.counts, plan.layers, strict=True))
    ]
    text = alt.Chart(alt.InlineData(values=rows)).mark_text(align="left", fontSize=11, color=INK)
    drawn: alt.Chart = text.encode(x="head:Q", y=y, text="kept:N")
    return drawn


def _written(cells: list[dict[str, Any]], y: alt.Y) -> alt.Chart:
    """Which key-value head each head reads."""
    text = alt.Chart(alt.InlineData(values=cells)).mark_text(fontSize=10, color="white")
    drawn: alt.Chart = text.encode(x="head:Q", y=y, text="group:N")
    return drawn
