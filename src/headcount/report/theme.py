"""How every chart looks: colours, text, axes, and how an error is placed.

One colour per number of heads: amber to red below D, sky to indigo from D on. Each ramp darkens with h, so it
reads as ordered; warm against cool is the one contrast that every common form of colour blindness keeps. All
tones are of middle lightness: at least 3 : 1 against a white and a near-black page alike, so one chart serves
both. Text and rules take the colour of the page around them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

Colour = tuple[int, int, int]

BELOW: tuple[Colour, ...] = ((202, 128, 0), (205, 84, 20), (190, 38, 60))
ENOUGH: tuple[Colour, ...] = ((30, 150, 200), (45, 110, 225), (115, 80, 215))
MAIN, BESIDE = "#1f77d0", "#9aa3ad"  # where colours do not stand for heads

INK = "currentColor"
TEXT: dict[str, Any] = {
    "labelColor": INK,
    "labelFontSize": 12,
    "titleColor": INK,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
}
TITLE: dict[str, Any] = {"color": INK, "fontSize": 13, "anchor": "start"}
CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "system-ui, sans-serif",
    "padding": 4,
    "axis": {
        **TEXT,
        "tickColor": INK,
        "gridColor": INK,
        "gridOpacity": 0.12,
        "domain": False,
        "titlePadding": 10,
    },
    "legend": TEXT,
    "title": {**TITLE, "subtitleColor": INK, "subtitleFontSize": 12},
    "view": {"stroke": None},
}
LENGTH, HEADS = "length T", "heads h"
MIN_EXPONENT, MAX_EXPONENT = -300, 300  # 10 ** -324 is already 0 in float64, and 10 ** 309 infinite


def calm(chart: Any) -> Any:
    """The chart in this theme."""
    return chart.configure(**CONFIG)


def head_colours(*, below: int, enough: int) -> list[str]:
    """The colours of `below` numbers of heads h < D, and then of `enough` numbers h >= D.

    >>> head_colours(below=1, enough=2)
    ['#ca8000', '#1e96c8', '#7350d7']
    """
    return [*_ramp(BELOW, steps=below), *_ramp(ENOUGH, steps=enough)]


def _ramp(stops: Sequence[Colour], *, steps: int) -> list[str]:
    at = np.linspace(0, len(stops) - 1, steps)
    channels = [np.interp(at, range(len(stops)), channel) for channel in zip(*stops, strict=True)]
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in np.rint(channels).astype(int).T]


@dataclass(frozen=True)
class Decades:
    """The whole powers of ten from 10^low to 10^high that hold all errors."""

    low: int
    high: int

    @property
    def domain(self) -> list[float]:
        """Both ends, as numbers."""
        return [10.0**self.low, 10.0**self.high]

    @property
    def middle(self) -> float:
        """The error half way up the axis."""
        return math.sqrt(self.domain[0]) * math.sqrt(self.domain[1])

    @property
    def scale(self) -> alt.Scale:
        """A logarithmic scale from end to end."""
        return alt.Scale(type="log", domain=self.domain, nice=False)

    def ticks(self, *, most: int) -> list[float]:
        """Whole decades, thinned to about `most`; 1, 2 and 5 where there is only one."""
        span = self.high - self.low
        if span == 1:
            return [digit * 10.0**self.low for digit in (1, 2, 5, 10)]
        return [10.0**exponent for exponent in range(self.low, self.high + 1, math.ceil(span / most))]

    def axis(self, field: str, title: str, *, most: int = 8) -> alt.Y:
        """The vertical axis of an error."""
        ticks = alt.Axis(values=self.ticks(most=most), format=".0e", ticks=False, labelPadding=6)
        return alt.Y(field, title=title, scale=self.scale, axis=ticks)

    def place(self, errors: "pd.Series[float]") -> "pd.Series[float]":
        """Every error at its own value, but zero, which has no logarithm, at the lower edge."""
        return errors.clip(*self.domain)


def decades(errors: "pd.Series[float]") -> Decades:
    """The axis for these errors, with a decade of room at the bottom if any of them is zero."""
    finite = errors[np.isfinite(errors)]
    positive = finite[finite > 0]
    if positive.empty:
        return Decades(low=-8, high=0)
    low = min(max(math.floor(math.log10(positive.min())), MIN_EXPONENT), MAX_EXPONENT - 1)
    high = min(max(math.ceil(math.log10(positive.max())), low + 1), MAX_EXPONENT)
    return Decades(low=low - int((finite == 0).any()), high=high)


def mark_dimension(dimension: int | None, *, words: str = " = D") -> str:
    """The label of a number of heads, with `words` after that which is D."""
    if dimension is None:
        return "datum.label"
    return f"datum.value === {dimension} ? datum.label + '{words}' : datum.label"


def cell_axis(dimension: int | None = None, *, words: str = " = D") -> alt.Axis:
    """An axis of single values, such as numbers of heads, without ticks; that which is D is marked."""
    label = mark_dimension(dimension, words=words)
    return alt.Axis(labelAngle=0, labelExpr=label, ticks=False, labelPadding=6)


def headline(text: str, subtitle: str) -> alt.TitleParams:
    """The title above several panels."""
    return alt.TitleParams(text=text, subtitle=subtitle, fontSize=14, offset=14)


def outlined(cells: alt.Chart) -> alt.Chart:
    """Cells without a colour, as dashed outlines."""
    return cells.mark_rect(
        fill="transparent", stroke=INK, strokeOpacity=0.4, strokeDash=[3, 3], cornerRadius=3
    )


def written_in(cells: alt.Chart) -> alt.Chart:
    """What stands in cells, in the ink that can be read on their colour."""
    return cells.mark_text(fontSize=11, color=alt.expr("datum.ink")).encode(text="written:N")


def plain(frame: pd.DataFrame) -> list[Any]:
    """Rows as a chart takes them: Altair refuses a frame of more than 5000 rows, and JSON has no NaN."""
    return frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
