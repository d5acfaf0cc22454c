"""An item of the reproduction as rows of text, and on a page of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from headcount.report.panel import Panel
from headcount.report.panel_chart import panel_chart
from headcount.report.rendering import facts, rendered
from headcount.reproduce.claims import Verdict
from headcount.reproduce.item import Item
from headcount.results.files import write_whole
from headcount.results.numbers import scientific

if TYPE_CHECKING:
    from headcount.report.map_panel import MapPanel


@dataclass(frozen=True)
class Figure:
    """A panel as the template shows it."""

    title: str
    chart: dict[str, Any]
    names: tuple[str, ...]
    rows: list[tuple[str, ...]]
    caption: str


def write_reproduction(
    item: Item,
    panels: "Sequence[Panel | MapPanel]",
    verdicts: Sequence[Verdict],
    frame: pd.DataFrame,
    path: Path,
    *,
    command: str,
    notes: Sequence[str] = (),
) -> None:
    """The page of an item, whole or not at all."""
    figures = [
        Figure(
            panel.title, panel_chart(panel).to_dict(), columns(panel), list(written(panel)), _caption(panel)
        )
        for panel in panels
    ]
    page = rendered(
        "reproduction.html",
        title=item.title,
        about=item.about,
        findings=[tally(verdicts), *notes],
        verdicts=verdicts,
        figures=figures,
        command=command,
        facts=facts(frame, failed=int((frame["status"] == "diverged").sum())),
    )
    write_whole(path, lambda file: file.write(page.encode()))


def _caption(panel: "Panel | MapPanel") -> str:
    if not isinstance(panel, Panel):
        return (
            "Numbers are p: 0 for an error like that of one layer with D heads, 1 for one like that with "
            "D - 1; learnt below 1/3, not learnt above 2/3. "
            f"The bar marks {panel.rival}. {panel.tally[0].upper()}{panel.tally[1:]}."
        )
    if panel.shares:
        return (
            "Points are means over seeds after the last step, bars a deviation to either side. The paper's "
            "numbers are 1 − accuracy."
        )
    return (
        "Points are the lowest test error over seeds, at the learning rate with the lowest validation error; "
        "bars reach up to the median over seeds."
    )


def tally(verdicts: Sequence[Verdict]) -> str:
    """How many claims hold, in a sentence.

    >>> tally([Verdict("a", True, ""), Verdict("b", None, "")])
    '1 of 2 claims holds here; 1 cannot be decided by this run.'
    """
    holding, open_ = (sum(verdict.holds is value for verdict in verdicts) for value in (True, None))
    hold = "hold" if holding != 1 else "holds"
    rest = f"; {open_} cannot be decided by this run" if open_ else ""
    return f"{holding} of {len(verdicts)} claims {hold} here{rest}."


def columns(panel: "Panel | MapPanel") -> tuple[str, ...]:
    """The names above what `written` gives."""
    if not isinstance(panel, Panel):
        from headcount.report.map_panel import COLUMNS

        return COLUMNS
    first, paper = (_short(panel.lines), _short(panel.across)), "paper" in panel.table
    if panel.shares:
        return (*first, *(["paper"] if paper else []), "ours", "failed")
    if not paper:
        return (*first, "min", "median", "mean ± std", "failed")
    beside_paper = (*first, "paper", "min", "median", "mean ± std", "failed", "ratio")
    return (*beside_paper, "validation", "selected")


def written(panel: "Panel | MapPanel") -> Iterator[tuple[str, ...]]:
    """Each cell as text: the paper's number, ours, and ours over the paper's."""
    if not isinstance(panel, Panel):
        from headcount.report.map_panel import map_rows

        yield from map_rows(panel)
        return
    for row in panel.table.sort_values([panel.lines, panel.across]).to_dict(orient="records"):
        low, middle, mean, std = (scientific(row[name]) for name in ("min", "median", "mean", "std"))
        ours = (low, middle, f"{mean} ± {std}")
        failed = f"{row['failed']} of {row['members']}" if row["failed"] else "0"
        place = (f"{row[panel.lines]:g}", f"{row[panel.across]:g}")
        if panel.shares:
            paper = (percent(row["paper"]),) if "paper" in row else ()
            yield (*place, *paper, f"{percent(row['mean'])} ± {percent(row['std'])}", failed)
        elif "paper" not in row:
            yield (*place, *ours, failed)
        else:
            chosen = ("validation", "selected")
            ratio = "–" if np.isnan(row["ratio"]) else f"{row['ratio']:.2g}"
            beside_paper = (scientific(row["paper"]), *ours, failed, ratio)
            yield (*place, *beside_paper, *(scientific(row[name]) for name in chosen))


def percent(share: float) -> str:
    """A share in hundredths: two digits after the point where it is below one.

    >>> percent(0.4271), percent(0.00071), percent(0), percent(float("nan"))
    ('42.7%', '0.07%', '0%', '–')
    """
    if np.isnan(share):
        return "–"
    return "0%" if share == 0 else f"{100 * share:.1f}%" if share >= 0.01 else f"{100 * share:.2f}%"


def _short(name: str) -> str:
    letters = {"heads": "h", "length": "T", "hidden": "N", "head_dim": "n", "width": "E"}
    return letters.get(name, name.replace("counted_parameters", "parameters"))
