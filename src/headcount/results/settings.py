"""What sets members of one task apart, beside heads, length, seed and learning rate."""

import hashlib
import json
from collections.abc import Iterable
from math import ceil
from typing import Any

import pandas as pd

Settings = dict[str, Any]

# Axes of a chart, what members of one cell may differ in, and what the task decides.
INSIDE = {"heads", "length", "seed", "data_seed", "learning_rate", "token_dim", "output_dim"}
# Sizes that may follow from the number of heads, and then set nothing apart.
FOLLOWING = {"head_dim", "kv_heads"}
MAX_LABEL_LENGTH = 40


def settings(frame: pd.DataFrame) -> list[str]:
    """For every row, as text, the settings that are not the same in all rows of its task and dimension."""
    text = [""] * len(frame)
    if "spec" in frame:
        specs = frame["spec"].to_list()
        for places in frame.groupby(["task", "dimension"], dropna=False).indices.values():
            labels = _labels([json.loads(specs[place]) for place in places])
            for place, label in zip(places, labels, strict=True):
                text[place] = label
    return text


def _labels(trials: list[dict[str, Any]]) -> list[str]:
    heads = [trial.get("architecture", {}).get("heads") for trial in trials]
    rows = _with_widths([_flat(trial) for trial in trials], heads)
    names = dict.fromkeys(name for row in rows for name in row)
    varying = [name for name in names if _varies([row.get(name) for row in rows], heads, name in FOLLOWING)]
    return [", ".join(f"{name} {_short(row[name])}" for name in varying if name in row) for row in rows]


def _flat(trial: dict[str, Any]) -> Settings:
    task = trial.get("task", {})
    options = {f"task {name}": value for name, value in task.get("options", ()) if name != "dimension"}
    version = task.get("version", task.get("fingerprint"))  # of a user's task, now and before
    code = {} if version is None else {"task code": version}
    sizes = {**trial.get("architecture", {}), **trial.get("training", {})}
    return {**options, **code, **{name: value for name, value in sizes.items() if name not in INSIDE}}


def _with_widths(rows: list[Settings], heads: list[Any]) -> list[Settings]:
    """Grids of fixed widths E, kept apart by them: n = ceil(E / h) says nothing across head counts."""
    by_heads: dict[Any, set[int]] = {}
    for row, count in zip(rows, heads, strict=True):
        if count and row.get("head_dim"):
            by_heads.setdefault(count, set()).add(row["head_dim"])
    if len({frozenset(sizes) for sizes in by_heads.values()}) < 2:
        return rows
    fewest = min(by_heads)
    widths = {fewest * size for size in by_heads[fewest]}
    if any({ceil(width / count) for width in widths} != sizes for count, sizes in by_heads.items()):
        return rows
    named = []
    for row, count in zip(rows, heads, strict=True):
        width = min(width for width in widths if ceil(width / count) == row["head_dim"])
        named.append({**{name: value for name, value in row.items() if name != "head_dim"}, "width": width})
    return named


def _varies(values: Iterable[Any], heads: Iterable[Any], follows: bool) -> bool:
    found: dict[Any, set[str]] = {}
    for value, count in zip(values, heads, strict=True):
        found.setdefault(count if follows else None, set()).add(repr(value))
    return any(len(distinct) > 1 for distinct in found.values())


def _short(value: Any) -> str:
    """At most a line of it, and never the same for two values."""
    text = str(value)
    if len(text) <= MAX_LABEL_LENGTH:
        return text
    return f"{text[: MAX_LABEL_LENGTH - 10]}… ({hashlib.sha256(text.encode()).hexdigest()[:6]})"
