"""The page of an inspection, from inspect.json and plan.json alone."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headcount.errors import InvalidInput
from headcount.report.heads_map import heads_map
from headcount.report.inspected import Collision, Grouped, Inspected, Planned, Rise, Solved, Step, read
from headcount.report.inspection_charts import (
    COLOURS,
    FREE,
    UNIFORM,
    Whole,
    layer_charts,
    rise_of,
    whole_chart,
)
from headcount.report.recovery_chart import recovery_chart
from headcount.report.rendering import Chart, duration, rendered
from headcount.report.theme import MAIN
from headcount.results.files import write_whole
from headcount.validation import expected

TITLE = "How many heads does this model need?"


def write_inspection(
    inspection: Mapping[str, Any], plan: Mapping[str, Any], path: Path, *, plan_file: str
) -> None:
    """Write the page, so that it is whole or not there."""
    page = render_inspection(inspection, plan, plan_file=plan_file)
    write_whole(path, lambda file: file.write(page.encode()))


def read_json(path: Path) -> dict[str, Any]:
    """The content of an inspect.json."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"{path}: expected an inspection in JSON: {problem}") from None
    if not isinstance(content, dict):
        raise expected(str(path), "an inspection in JSON", content)
    return content


def render_inspection(inspection: Mapping[str, Any], plan: Mapping[str, Any], *, plan_file: str) -> str:
    """The text of the page; `plan_file` is the plan as it is typed."""
    found, planned = read(inspection, plan)
    recovery = recovery_chart(found)
    return rendered(
        "inspection.html",
        title=TITLE,
        findings=[found.sentence],
        numbers=key_numbers(found),
        found=found,
        measured=rise_of(found.measure),
        whole=whole_chart(found).to_dict(),
        recovery=None if recovery is None else recovery.to_dict(),
        beyond=Whole.of(found).beyond,
        all_stay=planned.all_stay,
        layers=[chart.to_dict() for chart in layer_charts(found)],
        maps=[chart.to_dict() for chart in maps(planned)],
        sharing=any(shape.kv_heads < shape.heads for shape in planned.layers),
        grouping=planned.grouped,
        ways=list(dict.fromkeys(each.way for each in found.grouped)),
        grouped=grouped_rows(found),
        edited=_edited(found, planned),
        collisions=[(place_of(each, found), each) for each in found.collisions],
        plan_file=plan_file,
        command=found.command,
        facts=_facts(found, planned),
    )


def key_numbers(found: Inspected) -> list[tuple[str, str, str]]:
    """Of each: what it is, the number, and a remark."""
    numbers = [
        (
            f"can go, {name}",
            gone(solved, curve, found),
            "" if rise is None else f"{found.measure} {worded(rise)}",
        )
        for name, solved, curve in (
            (FREE, found.free, found.curves.free),
            (UNIFORM, found.uniform, found.curves.uniform),
        )
        for rise in [solved.reported if solved.heads < found.heads else None]
    ]
    alone = [layer.needed for layer in found.layers if layer.needed is not None]
    if alone:
        each = f"{min(alone)}" if min(alone) == max(alone) else f"{min(alone)} to {max(alone)}"
        heads = sorted({layer.heads for layer in found.layers})
        of = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
        numbers.append(("a layer needs, alone", f"{each} of {of}", f"{len(found.layers)} layers"))
    numbers.append(("tolerance", f"{found.tolerance:g}", f"{found.samples:,} samples"))
    return numbers


def maps(plan: Planned) -> Iterator[Chart]:
    """Of both solutions; and of the whole model, where its heads are to share key-value heads."""
    whole, grouped = plan.all_kept, plan.grouped
    for name, solution in ((FREE, plan.free), (UNIFORM, plan.uniform)):
        title = f"{name} keeps {sum(solution.counts)} of {sum(whole.counts)}"
        yield heads_map(plan, solution, title=title, colour=COLOURS[name])
    if grouped is not None and grouped.groups is not None:
        title = f"grouped: {grouped.kv_heads} key-value heads a layer"
        yield heads_map(plan, whole, title=title, colour=MAIN, groups=grouped.groups)


def grouped_rows(found: Inspected) -> list[tuple[int, dict[str, Grouped]]]:
    """A row for each number of key-value heads, the largest first, by the way in which it was made."""
    counts = sorted({each.kv_heads for each in found.grouped}, reverse=True)
    return [(count, {each.way: each for each in found.grouped if each.kv_heads == count}) for count in counts]


def gone(solved: Solved, curve: Sequence[Step], found: Inspected) -> str:
    """How many heads can go; where none did, the first step tells whether only noise forbids it."""
    removed = found.heads - solved.heads
    noisy = any(step.judged.low <= 0 for step in curve if step.heads < found.heads)
    if not removed and noisy:
        return "cannot tell"
    least, most = (found.heads - kept for kept in reversed(solved.interval or (solved.heads,) * 2))
    return f"{removed} of {found.heads}" + (f" [{least}, {most}]" if solved.interval else "")


def worded(rise: Rise) -> str:
    """A mean and its bounds.

    >>> worded(Rise(mean=0.03125, low=0.0247, high=0.038))
    '0.031 (0.025 to 0.038)'
    """
    return f"{rise.mean:.2g} ({rise.low:.2g} to {rise.high:.2g})"


def place_of(collision: Collision, found: Inspected) -> str:
    """The layer as everywhere on the page."""
    place = found.places.get(collision.layer)
    return collision.layer if place is None else f"Layer {place}"


def _edited(found: Inspected, plan: Planned) -> bool:
    """Whether the plan keeps other numbers of heads than were measured."""
    counted = ((layer.uniform, layer.free) for layer in found.layers)
    return list(counted) != list(zip(plan.uniform.counts, plan.free.counts, strict=True))


def _facts(found: Inspected, plan: Planned) -> list[tuple[str, str]]:
    chosen = [("heads chosen by", found.way)] if found.way else []
    return [
        ("measure", found.measure),
        ("samples", f"{found.samples:,}"),
        *chosen,
        ("time", duration(found.seconds)),
        ("model", plan.model),
        ("version", found.version),
    ]
