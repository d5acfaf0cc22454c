"""The page of a plan: the D that shapes reach over their layers, and what the smallest of them cost."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import altair as alt

from headcount.report.rendering import rendered
from headcount.report.theme import INK, calm, head_colours
from headcount.results.files import write_whole
from headcount.theory.plan import EXPLAINED, Behind, SizedShape
from headcount.theory.plan_answer import PlanAnswer
from headcount.theory.shape import Shape
from headcount.version import __version__

MAX_LINES, MAX_POINTS, MAX_TICKS = 6, 16, 16
MIN_LAYERS = 12  # on the axis


@dataclass(frozen=True)
class Reached:
    """The D that one shape reaches; `known` where it is no guess by extrapolation."""

    layers: int
    heads: int
    dimension: int
    known: bool
    law: str
    own: bool


def frontier(answer: PlanAnswer, *, behind: Behind) -> list[Reached]:
    """What is reached by several numbers of heads and of layers, all else as in the plan."""
    points = []
    for heads in _heads(answer):
        for layers in _layers(answer):
            shape = _shape(answer, layers, heads)
            found = answer.family.sized(shape)
            known = behind == "constructed" or not found.guessed
            law = found.reach.law if behind == "constructed" else found.trained_law
            own = answer.own is not None and shape == answer.own.shape
            points.append(Reached(layers, heads, getattr(found.reach, behind), known, law, own))
    return points


def frontier_chart(points: list[Reached], *, dimension: int | None, description: str) -> alt.LayerChart:
    """D over layers, one line per number of heads; open marks are guesses, a rule marks the D asked for."""
    heads = sorted({point.heads for point in points})
    layers = sorted({point.layers for point in points})
    reached = [*(point.dimension for point in points), dimension or 1]
    ticks = layers[:: -(-len(layers) // MAX_TICKS)]
    base = alt.Chart(alt.InlineData(values=[asdict(point) for point in points])).encode(
        x=alt.X(
            "layers:Q",
            title="layers L",
            scale=alt.Scale(domain=[1, layers[-1]], nice=False, padding=8),
            axis=alt.Axis(values=ticks, format="d", grid=False),
        ),
        y=alt.Y("dimension:Q", title="D reached", scale=_doubling(reached)),
        color=alt.Color(
            "heads:N",
            title="heads h",
            scale=alt.Scale(domain=heads, range=head_colours(below=0, enough=len(heads))),
            legend=alt.Legend(orient="top", symbolOpacity=1, symbolType="circle"),
        ),
        tooltip=["heads:N", "layers:Q", alt.Tooltip("dimension:Q", title="D reached"), "law:N"],
    )
    drawn: list[alt.Chart] = [base.mark_line(strokeWidth=2)]
    marks: list[tuple[str, bool, dict[str, Any]]] = [
        ("datum.known", any(point.known for point in points), {"size": 50, "filled": True}),
        ("!datum.known", not all(point.known for point in points), {"size": 40, "filled": False}),
        ("datum.own", any(point.own for point in points), {"size": 220, "filled": False, "stroke": INK}),
    ]
    # A layer without a mark would have a scale without ends.
    drawn += [
        base.transform_filter(which).mark_point(opacity=1, **look) for which, some, look in marks if some
    ]
    if dimension is not None:
        asked = alt.Chart(alt.InlineData(values=[{"dimension": dimension}]))
        rule = asked.mark_rule(strokeDash=[4, 4], color=INK, opacity=0.6)
        drawn.insert(0, rule.encode(y="dimension:Q"))
    return calm(alt.LayerChart(layer=drawn, height=280, description=description)).properties(
        width="container"
    )


def _doubling(values: list[int]) -> alt.Scale:
    """From 1, or from the smallest, to the largest; never without an extent."""
    return alt.Scale(type="log", base=2, domain=[min(values), max(2, *values)], nice=False)


def write_plan(answer: PlanAnswer, path: Path, *, command: str) -> None:
    """Write the page, so that it is whole or not there."""
    named = answer.model.kind if answer.model is not None else ""
    charts: list[dict[str, Any]] = [
        frontier_chart(
            frontier(answer, behind=behind),
            dimension=answer.dimension,
            description=f"D by layers and heads, {behind}",
        ).to_dict()
        for behind in ("trained", "constructed")
    ]
    page = rendered(
        "plan.html",
        title=f"Which D does this {named} model reach?" if named else "Which shapes reach this D?",
        findings=[answer.sentence],
        answer=answer,
        rows=[_row(each, answer.dimension) for each in answer.shapes if answer.dimension is not None],
        trained=charts[0],
        constructed=charts[1],
        explained=EXPLAINED,
        command=command,
        facts=[("version", __version__)],
    )
    write_whole(path, lambda file: file.write(page.encode()))


def _row(found: SizedShape, dimension: int) -> tuple[str, ...]:
    """The cells of a shape in the table."""
    shape, costs = found.shape, found.costs
    numbers = (shape.layers, shape.heads, shape.kv_heads, shape.head_dim, found.width)
    spent = (costs.parameters, costs.multiply_adds, costs.cache)
    return (
        *(f"{each:,}" for each in (*numbers, *spent)),
        found.weights(dimension),
        found.training(dimension),
        found.law(dimension),
    )


def _heads(answer: PlanAnswer) -> list[int]:
    """Those of the plan and of the model, and halves of the most; the largest where there are too many."""
    wanted = {shape.shape.heads for shape in answer.shapes}
    if answer.own is not None:
        wanted.add(answer.own.shape.heads)
    possible = answer.family.head_counts(max(wanted, default=1))
    halves = (possible[(len(possible) - 1) >> power] for power in range(len(possible).bit_length()))
    for count in (1, *halves):
        if len(wanted) < MAX_LINES:
            wanted.add(count)
    return sorted(wanted)[-MAX_LINES:]


def _layers(answer: PlanAnswer) -> list[int]:
    """From 1 to the deepest, thinned where there are many."""
    asked = {depth.layers for depth in answer.depths}
    if answer.own is not None:
        asked.add(answer.own.shape.layers)
    most = max(MIN_LAYERS, *asked)
    return sorted({*range(1, most + 1, -(-most // MAX_POINTS)), most, *asked})


def _shape(answer: PlanAnswer, layers: int, heads: int) -> Shape:
    """With as many query heads to a key-value head as the model has, or one."""
    group = 1 if answer.own is None else answer.own.shape.group_size
    return answer.family.shape(layers, heads, heads // group if heads % group == 0 else heads)
