"""A loss against numbers of heads: curves with bands, single measurements, and the tolerance as a line."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt

from headcount.report.inspected import Rise, Step
from headcount.report.theme import INK, calm

SPARE = 1.08  # of the largest bound
MIN_TOP = 1.5  # in tolerances, so that the line of the tolerance is well inside
TRIANGLE = "M0,-1.2L1.2,0.8L-1.2,0.8Z"


@dataclass(frozen=True)
class Point:
    """A loss with its bounds; `inside` where the tolerance allows it, `beyond` where the axis ends below."""

    which: str
    heads: int
    rise: float
    low: float
    high: float
    shown: float
    inside: bool
    beyond: bool


@dataclass(frozen=True)
class Losses:
    """The vertical axis."""

    low: float
    high: float
    tolerance: float
    ticks: int
    title: str | None = None

    @classmethod
    def of(
        cls, rises: Sequence[Rise], tolerance: float, *, most: float, ticks: int, title: str | None = None
    ) -> "Losses":
        """From 0 or below to the largest bound, or to so many tolerances: no one looks for more there."""
        highest = max([MIN_TOP * tolerance, *(SPARE * rise.high for rise in rises)])
        high = min(highest, most * tolerance)
        low = max(min([0.0, *(rise.low for rise in rises)]), -high / 2)
        return cls(low, high, tolerance, ticks, title)

    def point(self, which: str, heads: int, rise: Rise) -> Point:
        """A loss in its place; what is beyond the axis stands at its upper end."""
        shown = min(max(rise.mean, self.low), self.high)
        inside, beyond = rise.high <= self.tolerance, rise.mean > self.high
        return Point(which, heads, rise.mean, rise.low, rise.high, shown, inside, beyond)

    def curve(self, which: str, steps: Sequence[Step]) -> list[Point]:
        """All points of a curve."""
        return [self.point(which, step.heads, step.judged) for step in steps]

    def at(self, field: str) -> alt.Y:
        """The place of a value."""
        return alt.Y(
            f"{field}:Q",
            title=self.title,
            scale=alt.Scale(domain=[self.low, self.high], nice=False),
            axis=alt.Axis(tickCount=self.ticks, format="~g", ticks=False, labelPadding=6),
        )


@dataclass(frozen=True, eq=False)
class LossPanel:
    """Marks on one pair of axes.

    - `losses`, `heads`: the axes; `colour`, `shape`: one for all points, or a scale of what they are of.
    """

    losses: Losses
    heads: alt.X
    colour: Any
    shape: Any = None

    def line(self, points: Sequence[Point], **style: Any) -> alt.Chart:
        """Through the means."""
        drawn: alt.Chart = self._of(points).mark_line(clip=True, **style).encode(y=self.losses.at("rise"))
        return drawn

    def band(self, points: Sequence[Point]) -> alt.Chart:
        """Between the bounds."""
        drawn: alt.Chart = (
            self._of(points)
            .mark_area(opacity=0.17, clip=True)
            .encode(y=self.losses.at("low"), y2=alt.Y2("high:Q"))
        )
        return drawn

    def bars(self, points: Sequence[Point], *, width: int) -> alt.Chart:
        """From bound to bound at each point."""
        drawn: alt.Chart = (
            self._of(points)
            .mark_rule(strokeWidth=width, opacity=0.45, clip=True)
            .encode(y=self.losses.at("low"), y2=alt.Y2("high:Q"))
        )
        return drawn

    def marks(self, points: Sequence[Point], *, size: int) -> list[alt.Chart]:
        """Filled where the tolerance allows it, hollow where not; triangles are beyond the axis."""
        on_axis = [point for point in points if not point.beyond]
        kinds: list[tuple[list[Point], dict[str, Any]]] = [
            ([point for point in on_axis if point.inside], {"filled": True}),
            ([point for point in on_axis if not point.inside], {"filled": False, "strokeWidth": 1.6}),
        ]
        drawn = [self._marked(some, size=size, **look) for some, look in kinds if some]
        outside = [point for point in points if point.beyond]
        if outside:
            drawn.append(self._marked(outside, size=size, shape=TRIANGLE, filled=True))
        return drawn

    def ends(self, points: Sequence[Point]) -> list[alt.Chart]:
        """Diamonds with bars: measured on other samples than the curve."""
        look = {"shape": "diamond", "size": 90, "filled": True, "stroke": "white", "strokeWidth": 1}
        return [self.bars(points, width=5), self._marked(points, **look)] if points else []

    def tolerance(self, *, written: bool) -> list[alt.Chart]:
        """A dashed line, and what it is."""
        at = alt.Chart(alt.InlineData(values=[{"tolerance": self.losses.tolerance}]))
        rule = at.mark_rule(strokeDash=[5, 4], color=INK, opacity=0.75).encode(y=self.losses.at("tolerance"))
        text = at.mark_text(align="right", baseline="bottom", dy=-4, fontSize=11, color=INK).encode(
            x=alt.value(alt.expr("width")),
            y=self.losses.at("tolerance"),
            text=alt.value(f"tolerance {self.losses.tolerance:g}"),
        )
        return [rule, text] if written else [rule]

    def _of(self, points: Sequence[Point]) -> alt.Chart:
        base = alt.Chart(alt.InlineData(values=[asdict(point) for point in points]))
        drawn: alt.Chart = base.encode(x=self.heads, color=self.colour)
        return drawn

    def _marked(self, points: Sequence[Point], **look: Any) -> alt.Chart:
        numbers = [alt.Tooltip(f"{name}:Q", format=".3~g") for name in ("rise", "low", "high")]
        shapes = {} if self.shape is None or "shape" in look else {"shape": self.shape}
        drawn: alt.Chart = (
            self._of(points)
            .mark_point(opacity=1, **look)
            .encode(
                y=self.losses.at("shown"),
                tooltip=[alt.Tooltip("which:N", title="of"), alt.Tooltip("heads:Q"), *numbers],
                **shapes,
            )
        )
        return drawn


def head_axis(first: int, last: int, *, ticks: int, title: str | None) -> alt.X:
    """Whole numbers, the last one among the ticks."""
    stride = stride_of(last, -(-(last - first + 1) // ticks))
    return alt.X(
        "heads:Q",
        title=title,
        scale=alt.Scale(domain=[first, last], nice=False, padding=10),
        axis=alt.Axis(
            values=list(range(last, first - 1, -stride))[::-1], format="d", grid=False, labelSeparation=8
        ),
    )


def stride_of(count: int, least: int) -> int:
    """The smallest divisor of a count that is not much more than the least; those are easiest to read.

    >>> stride_of(144, 7), stride_of(32, 3), stride_of(7, 2)
    (8, 4, 2)
    """
    return next((each for each in range(least, 2 * least) if count % each == 0), least)


def drawn(layers: Sequence[alt.Chart], *, height: int, description: str) -> alt.LayerChart:
    """The marks as one chart, as wide as there is room."""
    chart = alt.LayerChart(layer=list(layers), height=height, description=description)
    return calm(chart).properties(width="container")
