"""The map of heads: layers down, heads across, and which of them a solution keeps."""

from collections.abc import Iterator
from typing import Any

import altair as alt

from headcount.report.inspected import Keeps, Planned
from headcount.report.loss_panel import stride_of
from headcount.report.theme import INK, calm, head_colours

KEPT, REMOVED = "kept", "removed"
ROW_HEIGHT, MIN_ROW_HEIGHT, MAX_HEIGHT = 24, 9, 480
MAX_TICKS = 12
MAX_WRITTEN = 16  # heads in a row: more have no room for a text
COUNT_ROOM = 0.16  # of the width, for the counts at the right


def heads_map(plan: Planned, solution: Keeps, *, name: str, colour: str) -> alt.LayerChart:
    """A cell for every head: filled where it is kept, in the colour of its group where heads are grouped."""
    most = max(shape.heads for shape in plan.layers)
    cells = list(_cells(plan, solution))
    rows = [
        {"layer": place, "head": most - 0.5 + COUNT_ROOM * most / 4, "kept": f"{kept} of {shape.heads}"}
        for place, (kept, shape) in enumerate(zip(solution.counts, plan.layers, strict=True))
    ]
    height = min(max(MAX_HEIGHT // len(plan.layers), MIN_ROW_HEIGHT), ROW_HEIGHT)
    stride = -(-14 // height)
    y = alt.Y(
        "layer:O",
        title="layer",
        axis=alt.Axis(ticks=False, values=list(range(0, len(plan.layers), stride))),
        scale=alt.Scale(paddingInner=0.14, paddingOuter=0.05),
    )
    x = alt.X(
        "left:Q",
        title="head",
        scale=alt.Scale(domain=[-0.5, most - 0.5 + COUNT_ROOM * most], nice=False),
        axis=alt.Axis(
            values=list(range(0, most, stride_of(most, -(-most // MAX_TICKS)))),
            format="d",
            grid=False,
            ticks=False,
        ),
    )
    base = alt.Chart(alt.InlineData(values=cells)).encode(
        x=x, x2="right:Q", y=y, tooltip=["layer:O", "head:O", "what:N", *_group_tip(cells)]
    )
    layers = [
        base.transform_filter("!datum.kept").mark_rect(
            fill="transparent", stroke=INK, strokeOpacity=0.3, strokeWidth=1, cornerRadius=2
        ),
        base.transform_filter("datum.kept").mark_rect(cornerRadius=2).encode(color=_colour(cells, colour)),
        _counts(rows, y) if height >= 11 else None,
        _groups(cells, x, y) if most <= MAX_WRITTEN and height >= 14 else None,
    ]
    title = alt.TitleParams(
        text=f"{name} keeps {sum(solution.counts)} of {sum(shape.heads for shape in plan.layers)}"
    )
    chart = alt.LayerChart(
        layer=[layer for layer in layers if layer is not None],
        title=title,
        height=alt.Step(height),
        description=f"Heads that the {name} solution keeps, by layer",
    )
    return calm(chart).properties(width="container")


def _cells(plan: Planned, solution: Keeps) -> Iterator[dict[str, Any]]:
    """Cells of one key-value head stand close together."""
    for layer, (shape, kept) in enumerate(zip(plan.layers, solution.kept, strict=True)):
        groups = {} if solution.groups is None else _group_of(solution.groups[layer])
        size = max(shape.heads // shape.kv_heads, 1)
        for head in range(shape.heads):
            first, last = head % size == 0, head % size == size - 1
            yield {
                "layer": layer,
                "head": head,
                "kept": head in kept,
                "what": KEPT if head in kept else REMOVED,
                "group": groups.get(head),
                "left": head - (0.4 if first else 0.49),
                "right": head + (0.4 if last else 0.49),
            }


def _group_of(groups: tuple[tuple[int, ...], ...] | None) -> dict[int, int]:
    return {head: number for number, group in enumerate(groups or ()) for head in group}


def _group_tip(cells: list[dict[str, Any]]) -> list[alt.Tooltip]:
    grouped = any(cell["group"] is not None for cell in cells)
    return [alt.Tooltip("group:N", title="key-value head")] if grouped else []


def _colour(cells: list[dict[str, Any]], plain: str) -> Any:
    groups = sorted({cell["group"] for cell in cells if cell["group"] is not None})
    if not groups:
        return alt.value(plain)
    colours = head_colours(below=0, enough=len(groups))
    return alt.Color("group:O", scale=alt.Scale(domain=groups, range=colours), legend=None)


def _counts(rows: list[dict[str, Any]], y: alt.Y) -> alt.Chart:
    """How many are kept, at the end of each row."""
    text = alt.Chart(alt.InlineData(values=rows)).mark_text(align="left", fontSize=11, color=INK)
    drawn: alt.Chart = text.encode(x="head:Q", y=y, text="kept:N")
    return drawn


def _groups(cells: list[dict[str, Any]], x: alt.X, y: alt.Y) -> alt.Chart | None:
    """Which key-value head each kept head reads."""
    written = [cell for cell in cells if cell["kept"] and cell["group"] is not None]
    if not written:
        return None
    text = alt.Chart(alt.InlineData(values=written)).mark_text(fontSize=10, color="white")
    drawn: alt.Chart = text.encode(x="head:Q", y=y, text="group:N")
    return drawn
