"""What sets members of one task apart, beside heads, length, seed and learning rate."""

import json
from typing import Any

import pandas as pd

# Axes of a chart, and what members of one cell may differ in.
INSIDE = {"dimension", "heads", "length", "seed", "data_seed", "learning_rate"}
# Sizes that may follow from the number of heads, and then set nothing apart.
FOLLOWING = {"head_dim", "kv_heads"}


def settings(frame: pd.DataFrame) -> list[str]:
    """For every row, as text, the settings that are not the same in all rows of its task and dimension."""
    text = [""] * len(frame)
    if "spec" in frame:
        specs = frame["spec"].to_list()
        for places in frame.groupby(["task", "dimension"], dropna=False).indices.values():
            labels = _labels([_flat(json.loads(specs[place])) for place in places])
            for place, label in zip(places, labels, strict=True):
                text[place] = label
    return text


def _flat(trial: dict[str, Any]) -> dict[str, Any]:
    options = dict(trial.get("task", {}).get("options", ()))
    task = {f"task {key}" if key in trial.get("architecture", ()) else key: options[key] for key in options}
    return {**task, **trial.get("architecture", {}), **trial.get("training", {})}


def _labels(trials: list[dict[str, Any]]) -> list[str]:
    names = [name for name in dict.fromkeys(name for trial in trials for name in trial) if name not in INSIDE]
    varying = [name for name in names if _varies(name, trials)]
    return [", ".join(f"{name} {_short(trial.get(name))}" for name in varying) for trial in trials]


def _varies(name: str, trials: list[dict[str, Any]]) -> bool:
    by_heads: dict[Any, set[str]] = {}
    for trial in trials:
        by_heads.setdefault(trial.get("heads") if name in FOLLOWING else None, set()).add(
            repr(trial.get(name))
        )
    return any(len(values) > 1 for values in by_heads.values())


def _short(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
