"""Results frame → one self-contained HTML page."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from headcount.report.charts import error_against_length, heat_map
from headcount.report.rendering import facts, rendered
from headcount.results.cells import Section, cell_table, sections
from headcount.results.files import write_whole


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
            plot=_specification(error_against_length(section.members)),
            heat=_specification(heat_map(section.members)),
            rows=[
                (int(cells["heads"].iloc[0]), cells.to_dict(orient="records"))
                for _, cells in table.groupby("heads")
            ],
        )


def _specification(chart: alt.LayerChart) -> dict[str, Any]:
    specification: dict[str, Any] = chart.to_dict()
    return specification
