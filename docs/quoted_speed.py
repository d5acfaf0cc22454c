"""Quotes of speed: the engine beside what one would write otherwise, and how its cost grows."""

from typing import Any

import altair as alt
import pandas as pd
from quoting import NOT_RUN, RESULTS, read_json, table

from headcount.report.theme import BESIDE, MAIN, calm

OURS, ALONE = "headcount", ("PyTorch", "PyTorch, torch.compile")
KINDS = ("cpu", "gpu")
AXES = {"length": "sequence length T", "heads": "heads h", "members": "members in a pack"}


def engine() -> str:
    rows = [
        (
            f"{result['machine']}, {result['members']} members",
            _time(result["torch_eager_us"]),
            _time(result["engine_us"]),
            f"**{result['ratio']:.0f}×**",
            f"{result['compile_seconds']:.1f} s",
            f"{result['fraction_of_product_rate']:.1%}",
        )
        for result in map(read_json, ("engine-cpu.json", "engine-gpu.json"))
    ]
    return table(("machine", "eager PyTorch", "this engine", "ratio", "compile", "of the product rate"), rows)


def _time(microseconds: float) -> str:
    return f"{microseconds / 1000:.1f} ms" if microseconds >= 1000 else f"{microseconds:.0f} µs"


def vit() -> str:
    """A pack of vision transformers beside eager PyTorch: speeds, and how accurate both get."""
    if not (RESULTS / "vit-gpu.json").exists():
        return NOT_RUN
    found = read_json("vit-gpu.json")
    rows = []
    for precision in ("float32", "bfloat16"):
        torch, ours = (found[precision][side] for side in ("torch", "headcount"))
        speeds = [f"{side['images_per_second']:,.0f} images a second" for side in (torch, ours)]
        ratio = f"**{found[precision]['ratio']:.1f}×**"
        rows.append((f"{precision}, {ours['members']} members", *speeds, ratio))
        for split in ("train", "validation"):
            right = [f"{side[split]:.1%}" for side in (torch, ours)]
            rows.append((f"{precision}, {split} accuracy", *right, ""))
    text = table(("", "eager PyTorch", "here", "ratio"), rows).replace("|  |", "| |")
    return f"{text}\n\n({found['machine']}, {found['steps']:,} steps.)"


def peers() -> str:
    """A step of one member by every peer and size; in brackets the first step, compiling included."""
    parts = [_compared(found) for kind in KINDS if (found := _measured("peers", kind))]
    return "\n\n".join(parts) or NOT_RUN


def _compared(found: dict[str, Any]) -> str:
    rows = pd.DataFrame(found["rows"])
    names = list(dict.fromkeys(rows["peer"]))
    lines = []
    for (layers, length, members), of_size in rows.groupby(["layers", "length", "members"]):
        by_peer = of_size.set_index("peer")
        if layers and OURS in by_peer.index and len(by_peer) > 1:
            alone = rows[(rows["layers"] == layers) & (rows["length"] == length) & rows["peer"].isin(ALONE)]
            by_peer = pd.concat([by_peer, alone.set_index("peer")])
            by_peer = by_peer[~by_peer.index.duplicated()]
            steps = by_peer.to_dict("index")
            cells = (_step_of(steps.get(name), name) for name in names)
            lines.append((f"L = {layers}, T = {length}, {members} at once", *cells))
    return f"{table(('', *names), lines)}\n\n({found['machine']}; {found['versions']}.)"


def _step_of(row: dict[Any, Any] | None, peer: str) -> str:
    if row is None:
        return "–"
    if not row["step_us"] > 0:
        return "failed"
    text = f"{_time(row['step_us'])} ({row['first_step_seconds']:.1f} s)"
    return f"**{text}**" if peer == OURS else text


def growth_chart() -> alt.HConcatChart | None:
    """Microseconds of a step and member against what is varied, on both machines."""
    rows = [
        {**row, "axis": axis, "value": row[axis], "machine": found["machine"]}
        for kind in KINDS
        if (found := _measured("growth", kind))
        for row in found["rows"]
        for axis in AXES
        if all(row[name] == usual for name, usual in _usual(found["rows"]).items() if name != axis)
    ]
    if not rows:
        return None
    frame, log = pd.DataFrame(rows), alt.Scale(type="log")
    panels = []
    for axis, title in AXES.items():
        part = frame[frame["axis"] == axis]
        values = sorted(int(value) for value in part["value"].unique())
        x = alt.X(
            "value:Q", scale=alt.Scale(type="log", nice=False), title=title, axis=alt.Axis(values=values)
        )
        y = alt.Y("step_us:Q", scale=log, title="µs a step and member")
        color = alt.Color("machine:N", scale=alt.Scale(range=[MAIN, BESIDE]), title=None)
        panels.append(
            alt.Chart(part).mark_line(point=True).encode(x=x, y=y, color=color).properties(width=220)
        )
    chart: alt.HConcatChart = calm(alt.hconcat(*panels).resolve_scale(y="shared"))
    return chart


def _usual(rows: list[dict[str, Any]]) -> dict[str, int]:
    """What stays while another is varied: the most frequent value of each."""
    frame = pd.DataFrame(rows)
    return {axis: int(frame[axis].mode()[0]) for axis in AXES}


def _measured(name: str, kind: str) -> dict[str, Any] | None:
    path = f"{name}-{kind}.json"
    return read_json(path) if (RESULTS / path).exists() else None
