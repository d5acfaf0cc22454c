"""What a trained model loses without heads: of the whole model, and of each layer alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import altair as alt

from headcount.report.inspected import Inspected, Layer, Rise, Step
from headcount.report.loss_panel import Losses, LossPanel, Point, drawn, head_axis
from headcount.report.theme import HEADS, INK, MAIN

FREE, UNIFORM = "free", "uniform"
COLOURS = {FREE: MAIN, UNIFORM: "#ca8000"}
GREY = "#7f8994"
SHAPES = (
    "square",
    "cross",
    "triangle-right",
    "triangle-down",
    "triangle-left",
)  # triangle-up is beyond the axis
HEIGHT, LAYER_HEIGHT = 320, 110
ENTRY, LETTER = 34, 6.5  # pixels of a legend: beside the text, and of a letter
MAX_TICKS, MAX_LAYER_TICKS = 12, 4
MAX_RISE, MAX_RISE_OF_BASELINES = 3.0, 8.0  # in tolerances: the axis ends there


@dataclass(frozen=True)
class Whole:
    """What the chart of the whole model shows.

    - `curves`: of both solutions; `ends`: where they end, on other samples; `beside`: the baselines.
    """

    losses: Losses
    curves: tuple[list[Point], ...]
    ends: list[Point]
    beside: list[Point]

    @classmethod
    def of(cls, found: Inspected) -> "Whole":
        """All of it in its place."""
        steps = [step.judged for step in (*found.curves.free, *found.curves.uniform)]
        others = [Rise(mean=each.rise, low=each.low, high=each.high) for each in found.baselines]
        most = MAX_RISE_OF_BASELINES if others else MAX_RISE
        losses = Losses.of(
            [*steps, *others], found.tolerance, most=most, ticks=6, title=rise_of(found.measure)
        )
        solved = ((UNIFORM, found.uniform), (FREE, found.free))
        return cls(
            losses,
            (losses.curve(UNIFORM, found.curves.uniform), losses.curve(FREE, found.curves.free)),
            [
                losses.point(name, each.heads, each.reported)
                for name, each in solved
                if each.reported is not None and each.heads < found.heads
            ],
            [
                losses.point(each.name, each.heads, rise)
                for each, rise in zip(found.baselines, others, strict=True)
            ],
        )

    @property
    def points(self) -> list[Point]:
        """All of them."""
        return [*chain(*self.curves), *self.ends, *self.beside]

    @property
    def beyond(self) -> bool:
        """Whether any is off the axis."""
        return any(point.beyond for point in self.points)


def whole_chart(found: Inspected) -> alt.LayerChart:
    """Both solutions with bands, where they end on other samples, and the baselines."""
    whole = Whole.of(found)
    first = min([found.heads - 1, *(point.heads for point in whole.points)])
    names = list(dict.fromkeys(point.which for point in whole.beside))
    axis = head_axis(first, found.heads, ticks=MAX_TICKS, title=HEADS)
    panel = LossPanel(whole.losses, axis, *_legend(names))
    layers = panel.tolerance(written=True)
    if whole.beside:
        layers += [panel.line(whole.beside, strokeWidth=1.3, strokeDash=[4, 3])]
        layers += [panel.bars(whole.beside, width=2), *panel.marks(whole.beside, size=54)]
    for curve in whole.curves:
        layers += _curve(panel, curve, size=48)
    layers += panel.ends(whole.ends)
    words = f"Loss of the whole model against heads, tolerance {found.tolerance:g}"
    return drawn(layers, height=HEIGHT, description=words)


def layer_charts(found: Inspected) -> Iterator[alt.LayerChart]:
    """For each layer while the others stay whole, all with the same vertical axis."""
    steps = [step.judged for curve in found.curves.alone for step in curve]
    losses = Losses.of(steps, found.tolerance, most=MAX_RISE, ticks=3)
    for place, (layer, curve) in enumerate(
        zip(found.layers, found.curves.alone, strict=bool(found.curves.alone))
    ):
        yield _layer_chart(f"layer {place}", layer, curve, losses)


def rise_of(measure: str) -> str:
    """What the axis of the losses measures.

    >>> rise_of("metric"), rise_of("KL divergence")
    ('drop of the metric', 'KL divergence from the whole model')
    """
    if measure == "metric":
        return "drop of the metric"
    away = measure.endswith(("divergence", "distance"))
    return f"{measure} from the whole model" if away else f"rise of the {measure}"


def needs(layer: Layer) -> str:
    """How many heads a layer needs by itself, in a few words."""
    count = "cannot tell" if layer.needed is None else f"needs {layer.needed} of {layer.heads}"
    return f"{count} [{layer.low}, {layer.high}]"


def _layer_chart(name: str, layer: Layer, curve: tuple[Step, ...], losses: Losses) -> alt.LayerChart:
    points = losses.curve(name, curve)
    panel = LossPanel(
        losses,
        head_axis(1, max(layer.heads, 2), ticks=MAX_LAYER_TICKS, title=None),
        alt.value(MAIN),
    )
    interval = alt.Chart(alt.InlineData(values=[{"heads": layer.low, "last": layer.high}]))
    span = interval.mark_rule(strokeWidth=8, strokeCap="round", opacity=0.18, color=INK).encode(
        x=panel.heads, x2="last:Q", y=alt.datum(losses.low)
    )
    title = alt.TitleParams(text=name, subtitle=needs(layer), frame="bounds", fontSize=12, offset=6)
    layers = [span, *panel.tolerance(written=False), *_curve(panel, points, size=24)]
    return drawn(layers, height=LAYER_HEIGHT, description=f"{name}: {needs(layer)}").properties(title=title)


def _curve(panel: LossPanel, points: list[Point], *, size: int) -> list[alt.Chart]:
    return [panel.band(points), panel.line(points, strokeWidth=2), *panel.marks(points, size=size)]


def _legend(names: list[str]) -> tuple[alt.Color, alt.Shape]:
    """A colour for each solution, a shape for each baseline."""
    which = [*COLOURS, *names]
    colours = [*COLOURS.values(), *(GREY for _ in names)]
    shapes = [*("circle" for _ in COLOURS), *(SHAPES[place % len(SHAPES)] for place in range(len(names)))]
    entry = ENTRY + LETTER * max(map(len, which))
    legend = alt.Legend(
        orient="top",
        symbolOpacity=1,
        symbolSize=80,
        labelLimit=300,
        columns=alt.expr(f"max(1, floor(width / {entry:.0f}))"),
    )
    return (
        alt.Color("which:N", title=None, scale=alt.Scale(domain=which, range=colours), legend=legend),
        alt.Shape("which:N", title=None, scale=alt.Scale(domain=which, range=shapes), legend=legend),
    )
