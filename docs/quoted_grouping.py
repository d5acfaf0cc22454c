"""What is quoted about fewer key-value heads in trained models."""

from itertools import product
from typing import Any

from quoting import NOT_RUN, RESULTS, read_json, table

FILE = "trained-grouping.json"
NAMES = {"joint": "joint SVD", "procrustes": "Procrustes", "mean": "mean"}
# The mean is over neighbours, as published.
COLUMNS = (*product(("joint", "procrustes"), (True, False)), ("mean", True), ("mean", False))


def grouping() -> str:
    """What fewer key-value heads cost, by how heads are made to share one."""
    if not (RESULTS / FILE).exists():
        return NOT_RUN
    found = read_json(FILE)
    names = ("model", "key-value heads", *(f"{NAMES[name]}{' + refit' * refit}" for name, refit in COLUMNS))
    rows = [
        (name, f"{kv_heads} of {model['heads']}", *(_cell(model, kv_heads, *column) for column in COLUMNS))
        for name, model in found["models"].items()
        for kv_heads in sorted({row["kv_heads"] for row in model["rows"]}, reverse=True)
    ]
    return f"{table(names, rows)}\n\n{_about(found)}"


def _cell(model: dict[str, Any], kv_heads: int, method: str, refit: bool) -> str:
    choose = method != "mean" or kv_heads == 1
    wanted = {"kv_heads": kv_heads, "method": method, "refit": refit, "choose": choose}
    row = next(each for each in model["rows"] if wanted.items() <= each.items())
    digits = 3 if "nats" in model["measure"] else 1
    return f"{row['lost']:.{digits}f} ± {row['half_width']:.{digits}f}"


def _about(found: dict[str, Any]) -> str:
    lines = ";\n".join(
        f"{name}: {model['measure']} on {model['test_samples']:,} samples; the whole one has {_whole(model)}"
        for name, model in found["models"].items()
    )
    some = next(iter(found["models"].values()))
    return (
        f"{lines}.\n± 95%, paired. Both have {some['layers']} layers of {some['heads']} heads of "
        f"{some['head_dim']} numbers and were trained for about two minutes;\n"
        f"{some['calibration_samples']} samples without labels gave moments and refits. ({found['machine']}.)"
    )


def _whole(model: dict[str, Any]) -> str:
    if "nats" in model["measure"]:
        return f"a loss of {model['whole']:.2f}"
    return f"an accuracy of {100 - model['whole']:.1f}%"
