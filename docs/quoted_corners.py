"""Heads and width apart on real data: what each adds to training accuracy, as a table and as a picture."""

from collections.abc import Iterator
from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd
from quoted_items import known_rows
from quoting import MARKS, table

from headcount.report.theme import BESIDE, INK, MAIN, calm, plain
from headcount.reproduce.real.variants import GRID, HEADS_FIXED, SHORTER, SHORTER_CORNERS, WIDTH_FIXED
from headcount.results.intervals import difference

TITLES = {"msmarco": "MS MARCO", "cifar10": "CIFAR-10"}
MANY = 8  # heads
Errors = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Corners:
    """The shares that are wrong, in percent over seeds: with one head or eight, narrow or wide."""

    where: str
    length: int
    widths: tuple[int, int]
    neither: Errors
    heads: Errors
    width: Errors
    both: Errors


def corners() -> str:
    """What heads and what width add, each alone."""
    added = ("8 heads", "width", "width is ahead by", "8 heads, once wide", "width, with 8 heads")
    rows = []
    for found in every():
        ahead = difference(found.heads, found.width)
        narrow, wide = found.widths
        pairs = ((found.heads, found.width), (found.width, found.both), (found.heads, found.both))
        rows.append(
            (
                MARKS[ahead.sign > 0 if ahead.sign else None],
                f"{found.where}, E = {narrow} and {wide}",
                *(found.length, len(found.neither), f"{found.neither.mean():.1f}%"),
                *(_added(found.neither, alone) for alone in (found.heads, found.width)),
                *(_added(*pair) for pair in pairs),
            )
        )
    return table(("", "", "T", "seeds", "wrong before", *added), rows)


def every() -> Iterator[Corners]:
    """All corners that were trained."""
    for name, title in TITLES.items():
        frame = known_rows(name)
        for grid, controls in ((GRID, (WIDTH_FIXED, HEADS_FIXED)), (SHORTER, (SHORTER_CORNERS,))):
            if grid in set(frame["variant"]):
                where = f"{title}, {'6 epochs' if grid == SHORTER else 'full'}"
                yield from _corners_of(frame, where, grid, controls)


def _corners_of(frame: pd.DataFrame, where: str, grid: str, controls: tuple[str, ...]) -> Iterator[Corners]:
    cells = frame[frame["variant"].isin((grid, *controls))].drop_duplicates("trial")
    few, narrow = cells[cells["variant"] == grid].sort_values("heads")[["heads", "width"]].iloc[0]
    wrong = {
        corner: 100 * members["train_error"].to_numpy()
        for corner, members in cells.groupby(["heads", "width", "length"])
    }
    held = frame[frame["variant"].isin(controls)]
    wide = held[held["heads"] == few]["width"].max()
    for length in sorted(held[held["width"] == wide]["length"].unique()):
        ends = ((few, narrow), (MANY, narrow), (few, wide), (MANY, wide))
        errors = (wrong[heads, width, length] for heads, width in ends)
        yield Corners(where, int(length), (int(narrow), int(wide)), *errors)


def _added(before: Errors, after: Errors) -> str:
    """Points of accuracy with their interval; none where no seed made an error before or after."""
    if not before.any() and not after.any():
        return "– (no error left)"
    found = difference(before, after)
    low, high = found.interval
    return f"{found.value:z.1f} ({low:z.1f} to {high:z.1f})"


def corners_chart() -> alt.Chart:
    """What eight heads and what width add to a narrow model of one head, in points, with their intervals."""
    points = []
    for found in every():
        for what, alone in (("8 heads for 1", found.heads), ("the larger width", found.width)):
            one = difference(found.neither, alone)
            low, high = one.interval
            place = f"{found.where}, T = {found.length}"
            points.append({"place": place, "added": what, "points": one.value, "low": low, "high": high})
    base = alt.Chart(alt.InlineData(values=plain(pd.DataFrame(points)))).encode(
        y=alt.Y("place:N", sort=None, title=None, axis=alt.Axis(labelLimit=260, minExtent=210, grid=True)),
        yOffset=alt.YOffset("added:N"),
        color=alt.Color(
            "added:N",
            scale=alt.Scale(domain=["8 heads for 1", "the larger width"], range=[BESIDE, MAIN]),
            legend=alt.Legend(title="added to one narrow head", orient="top", direction="horizontal"),
        ),
    )
    title = "points of training accuracy, with 95% intervals over seeds"
    dots = base.mark_circle(size=70, opacity=1).encode(x=alt.X("points:Q", title=title))
    bars = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
    zero = alt.Chart(alt.InlineData(values=[{"at": 0}])).mark_rule(color=INK).encode(x="at:Q")
    chart: alt.Chart = calm(alt.layer(zero, bars, dots).properties(width=460, height=alt.Step(16)))
    return chart
