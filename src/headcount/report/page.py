"""Results frame → one self-contained HTML page: it opens from disk, without a network, for ever."""

import functools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import jinja2
import pandas as pd
import vl_convert

from headcount.report.charts import error_against_length, heat_map
from headcount.report.error_axis import scientific
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
    """The text of the page; everything that comes from outside is escaped by the template."""
    figures = list(_figures(frame))
    return rendered(
        "page.html",
        title=title,
        findings=findings,
        command=command,
        figures=figures,
        facts=facts(frame, failed=sum(figure.failed for figure in figures)),
    )


def rendered(template: str, **content: Any) -> str:
    """One of the templates, filled."""
    return _environment().get_template(template).render(bundle=_bundle(), **content)


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


def facts(frame: pd.DataFrame, *, failed: int) -> list[tuple[str, str]]:
    """What was run, on what, for how long."""
    distinct = {
        column: "; ".join(sorted(frame[column].dropna().astype(str).unique()))
        for column in ("device", "precision", "versions")
    }
    return [
        ("members", f"{len(frame):,}"),
        ("failed members", f"{failed:,}"),
        *distinct.items(),
        ("time of all members", duration(frame["seconds"].sum())),
    ]


def duration(seconds: float) -> str:
    """Hours, minutes and seconds, the largest two that matter.

    >>> duration(7.25), duration(75), duration(7322)
    ('7.2 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    return f"{hours:,} h {minutes_left} min" if hours else f"{minutes} min {rest} s"


def _specification(chart: alt.LayerChart) -> dict[str, Any]:
    specification: dict[str, Any] = chart.to_dict()
    return specification


@functools.cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script that defines `vegaEmbed`."""
    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    # HTML ends a script at the first such tag, even inside a JavaScript string.
    return bundle.replace("</script", r"<\/script")


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("headcount.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["scientific"] = scientific
    # NaN is no JSON: better no page than one whose charts stay empty.
    environment.policies["json.dumps_kwargs"] = {
        "allow_nan": False,
        "sort_keys": True,
        "separators": (",", ":"),
    }
    return environment
