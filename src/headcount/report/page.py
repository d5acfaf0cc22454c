"""Results frame → charts → one self-contained HTML page.

The deciding plot is `error_against_length`: error grows with T as long as heads are too few, and the
first flat line is D.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from headcount.report.rendering import facts, rendered
from headcount.report.theme import (
    HEADS,
    INK,
    LENGTH,
    Decades,
    calm,
    decades,
    head_colours,
    mark_dimension,
    outlined,
    plain,
    written_in,
)
from headcount.results.cells import CELL, Section, cell_table, only_section, sections, selected_members
from headcount.results.files import write_whole
from headcount.results.numbers import scientific

PLOT_HEIGHT = 380
ROW_HEIGHT = 30
LEGEND_ENTRY, MAX_ENTRY = 50, 80
LEGEND_OFFSET = 12
GRADIENT_LENGTH = 280
FADED = 0.08
STRIP = -16  # pixels above the plot: a member without an error has no place on the axis
MEMBERS_WIDTH = 28  # pixels that the members of one length are spread over
SHAPES = {
    "finished": "circle",
    "diverged": "M-0.8,-0.8L0.8,0.8M0.8,-0.8L-0.8,0.8",
    "zero": "M-1.2,-0.7L1.2,-0.7L0,1.3Z",
}


def error_against_length(frame: pd.DataFrame) -> alt.LayerChart:
    """Test error against length T, one line per h through its selected members; all members as points.

    A diverged member is a cross: at its own error if it has one, else in a strip above the axis.
    An error of exactly 0 is a triangle on the lower edge that points down.
    """
    section = only_section(frame)
    axis = decades(section.members["test_error"])
    highlight = alt.selection_point(name="highlight", fields=["heads"], bind="legend", toggle="true")
    selected = _placed(selected_members(section), axis=axis)
    base = alt.Chart().encode(
        x=_length(section),
        y=axis.axis("shown:Q", f"test error ({section.metric.upper()})"),
        color=_head_colour(section),
    )
    return _drawn(
        [
            _lines(base, section=section, highlight=highlight).add_params(highlight),
            _points(base, data="members", highlight=highlight, opacity=0.6).mark_point(
                size=26, strokeWidth=1.3, xOffset=_side_by_side(section)
            ),
            _points(base, data="selected", highlight=highlight, opacity=1).mark_point(size=60, filled=True),
            *_strip(base, section=section, highlight=highlight),
        ],
        datasets={
            "paths": _paths(selected, section=section),
            "members": _placed(section.members, axis=axis),
            "selected": selected,
            "lost": _lost_cells(section),
        },
        height=PLOT_HEIGHT,
        description=f"Test error against length, one line for each of {len(section.heads)} numbers of heads",
    )


def heat_map(frame: pd.DataFrame) -> alt.LayerChart:
    """Test error of the selected member for every heads × length, coloured by its logarithm.

    A cell whose members all failed is an empty outline with a cross; one never trained is left out.
    """
    section = only_section(frame)
    table = cell_table(section)
    axis = decades(table["best"])
    cells = _cells(section)
    return _drawn(
        [
            cells.mark_rect(cornerRadius=3).encode(color=_error_colour(axis)),
            outlined(cells.transform_filter("datum.shown === null")),
            written_in(cells),
            *_border(section),
        ],
        datasets={"cells": _written(table, axis=axis), "border": pd.DataFrame({"heads": section.enough[:1]})},
        height=ROW_HEIGHT * len(section.heads),
        description="Test error of the selected member for every number of heads and every length",
    )


def _paths(selected: pd.DataFrame, *, section: Section) -> pd.DataFrame:
    """A cell in which every member failed must break its line, not be bridged: it stays, without a value."""
    grid = pd.MultiIndex.from_product([section.heads, section.lengths], names=CELL)
    return selected.set_index(CELL)[["shown"]].reindex(grid).reset_index()


def _lines(base: alt.Chart, *, section: Section, highlight: alt.Parameter) -> alt.Chart:
    dashes = [[5, 4]] * len(section.below) + [[1, 0]] * len(section.enough)
    lines: alt.Chart = base.mark_line(strokeCap="round", strokeJoin="round").encode(
        strokeDash=alt.StrokeDash(
            "heads:O", scale=alt.Scale(domain=section.heads, range=dashes), legend=_legend(section)
        ),
        strokeWidth=alt.condition(
            f"datum.heads === {section.dimension or 0}", alt.value(3.5), alt.value(1.8)
        ),
        opacity=alt.condition(highlight, alt.value(1), alt.value(FADED)),
    )
    return lines.properties(data=alt.NamedData("paths"), name="lines")


def _points(base: alt.Chart, *, data: str, highlight: alt.Parameter, opacity: float) -> alt.Chart:
    shapes = alt.Scale(domain=list(SHAPES), range=list(SHAPES.values()))
    points: alt.Chart = base.encode(
        shape=alt.Shape("mark:N", scale=shapes, legend=None),
        opacity=alt.condition(highlight, alt.value(opacity), alt.value(FADED)),
        tooltip=[
            *("heads:O", "length:O", "seed:O"),
            alt.Tooltip("learning_rate:Q", title="learning rate", format="~g"),
            alt.Tooltip("test_error:Q", title="test error", format=".2e"),
            alt.Tooltip("validation_error:Q", title="validation error", format=".2e"),
            "status:N",
        ],
    )
    return points.properties(data=alt.NamedData(data))


def _strip(base: alt.Chart, *, section: Section, highlight: alt.Parameter) -> list[alt.Chart]:
    """The members that diverged before they had any error: one cross per cell, above the axis."""
    if not _is_lost(section.members).any():
        return []
    crosses = base.mark_point(
        shape=SHAPES["diverged"], size=34, strokeWidth=1.6, xOffset=_side_by_side(section)
    ).encode(
        y=alt.value(STRIP),
        opacity=alt.condition(highlight, alt.value(1), alt.value(FADED)),
        tooltip=[
            *("heads:O", "length:O", "diverged:N", alt.Tooltip("seeds:N", title="seed")),
            alt.Tooltip("learning_rates:N", title="learning rate"),
        ],
    )
    label = (
        alt.Chart(alt.InlineData(values=[{}]))
        .mark_text(align="right", fontSize=11, color=INK, opacity=0.75)
        .encode(x=alt.value(-6), y=alt.value(STRIP), text=alt.value("diverged"))
    )
    return [crosses.properties(data=alt.NamedData("lost")), label]


def _lost_cells(section: Section) -> pd.DataFrame:
    rows = [
        {
            **cell.iloc[0][CELL],
            "diverged": f"{cell['lost'].sum()} of {len(cell)} members",
            "seeds": _listed(cell.loc[cell["lost"], "seed"]),
            "learning_rates": _listed(cell.loc[cell["lost"], "learning_rate"]),
        }
        for _, cell in section.members.assign(lost=_is_lost(section.members)).groupby(CELL)
        if cell["lost"].any()
    ]
    return pd.DataFrame(rows)


def _side_by_side(section: Section) -> alt.ExprRef:
    """Members of one length stand beside each other in the order of their heads, or they would hide there."""
    middle, step = (len(section.heads) - 1) / 2, MEMBERS_WIDTH / len(section.heads)
    return alt.expr(f"(indexof({section.heads}, datum.heads) - {middle}) * {step}")


def _is_lost(members: pd.DataFrame) -> "pd.Series[bool]":
    return ~np.isfinite(members["test_error"])


def _placed(members: pd.DataFrame, *, axis: Decades) -> pd.DataFrame:
    """The members that have an error, with the height and the mark at which it is shown."""
    columns = [*CELL, "seed", "learning_rate", "test_error", "validation_error", "status"]
    drawn = members[~_is_lost(members)]
    mark = np.select([drawn["failed"], drawn["test_error"] == 0], ["diverged", "zero"], "finished")
    return drawn[columns].assign(shown=axis.place(drawn["test_error"]), mark=mark)


def _length(section: Section) -> alt.X:
    room = [section.lengths[0] / 1.25, section.lengths[-1] * 1.25]
    return alt.X(
        "length:Q",
        title=LENGTH,
        scale=alt.Scale(type="log", base=2, domain=room, nice=False),
        axis=alt.Axis(values=section.lengths, format="d", grid=False),
    )


def _head_colour(section: Section) -> alt.Color:
    colours = head_colours(below=len(section.below), enough=len(section.enough))
    return alt.Color("heads:O", scale=alt.Scale(domain=section.heads, range=colours), legend=_legend(section))


def _legend(section: Section) -> alt.Legend:
    return alt.Legend(
        title="heads h, dashed where h < D" if section.below else HEADS,
        orient="top",
        offset=LEGEND_OFFSET - (2 * STRIP if _is_lost(section.members).any() else 0),
        columns=alt.expr(f"max(1, floor((width - {MAX_ENTRY}) / {LEGEND_ENTRY}) + 1)"),
        columnPadding=14,
        symbolType="stroke",
        symbolSize=320,
        symbolStrokeWidth=2.5,
        labelExpr=mark_dimension(section.dimension),
    )


def _written(table: pd.DataFrame, *, axis: Decades) -> pd.DataFrame:
    """The trained cells, with what is printed in each and the ink that can be read on its colour."""
    trained = table[table["members"] > 0]
    best = trained["best"]
    return trained.assign(
        shown=axis.place(best),
        written=["×" if np.isnan(error) else scientific(error) for error in best],
        ink=np.select([best.isna(), best < axis.middle], [INK, "white"], "black"),
    )


def _cells(section: Section) -> alt.Chart:
    return alt.Chart(alt.NamedData("cells")).encode(
        # Both gaps come out at a few pixels, whatever the number of lengths.
        x=alt.X("length:O", title=LENGTH, **_band(section.lengths, gap=0.005 * len(section.lengths))),
        y=alt.Y(
            "heads:O", title=HEADS, **_band(section.heads, gap=0.08, label=mark_dimension(section.dimension))
        ),
        tooltip=[
            *("heads:O", "length:O", alt.Tooltip("written:N", title="test error")),
            *("members:Q", alt.Tooltip("failed:Q", title="failed members")),
        ],
    )


def _border(section: Section) -> list[alt.Chart]:
    """The line between too few heads and enough, where the grid has both."""
    if not section.below or not section.enough:
        return []
    rule = alt.Chart(alt.NamedData("border")).mark_rule(
        color=INK, strokeWidth=2, strokeCap="round", yOffset=-1
    )
    return [rule.encode(y=alt.Y("heads:O", bandPosition=0))]


def _band(values: Sequence[int], *, gap: float, label: str = "datum.label") -> dict[str, Any]:
    return {
        "scale": alt.Scale(domain=values, paddingInner=min(gap, 0.2), paddingOuter=0),
        "axis": alt.Axis(labelAngle=0, labelExpr=label, ticks=False, labelPadding=8),
    }


def _error_colour(axis: Decades) -> alt.Color:
    return alt.Color(
        "shown:Q",
        scale=alt.Scale(type="log", scheme="viridis", domain=axis.domain, nice=False),
        legend=alt.Legend(
            title="test error",
            orient="top",
            offset=LEGEND_OFFSET,
            format=".0e",
            values=axis.ticks(most=4),
            gradientLength=GRADIENT_LENGTH,
        ),
    )


def _listed(values: "pd.Series[Any]") -> str:
    return ", ".join(f"{value:g}" for value in sorted(values.unique()))


def _drawn(
    layers: Sequence[alt.Chart], *, datasets: Mapping[str, pd.DataFrame], height: int, description: str
) -> alt.LayerChart:
    """The layers as one chart."""
    return calm(
        alt.LayerChart(
            layer=list(layers),
            datasets={name: plain(frame) for name, frame in datasets.items()},
            width="container",
            height=height,
            description=description,
        )
    )


@dataclass(frozen=True)
class Figures:
    """A section as the template shows it."""

    section: Section
    plot: dict[str, Any]
    heat: dict[str, Any]
    rows: list[tuple[int, list[dict[Hashable, Any]]]]

    @property
    def failed(self) -> int:
        """How many members of the section diverged."""
        return int(self.section.members["failed"].sum())

    @property
    def has_zero(self) -> bool:
        """Whether the plot has a mark for an error of exactly 0."""
        return bool((self.section.members["test_error"] == 0).any())


def write_page(frame: pd.DataFrame, path: Path, *, title: str, findings: Sequence[str], command: str) -> None:
    """Write the page so that `path` holds either what it held before or the whole new page."""
    page = render_page(frame, title=title, findings=findings, command=command)
    write_whole(Path(path), lambda file: file.write(page.encode()))


def render_page(frame: pd.DataFrame, *, title: str, findings: Sequence[str], command: str) -> str:
    """The text of the page."""
    figures = list(_figures(frame))
    return rendered(
        "page.html",
        title=title,
        findings=findings,
        command=command,
        figures=figures,
        facts=facts(frame, failed=sum(figure.failed for figure in figures)),
    )


def _figures(frame: pd.DataFrame) -> Iterator[Figures]:
    for section in sections(frame):
        table = cell_table(section)
        yield Figures(
            section=section,
            plot=error_against_length(section.members).to_dict(),
            heat=heat_map(section.members).to_dict(),
            rows=[
                (int(cells["heads"].iloc[0]), cells.to_dict(orient="records"))
                for _, cells in table.groupby("heads")
            ],
        )
