"""What is quoted about half of the heads of trained models, and about the rules that choose them."""

from collections.abc import Iterator
from statistics import mean
from typing import Any

from quoting import NOT_RUN, RESULTS, read_json, table

KINDS = {"vit-6": "ViT, 6 heads", "vit-12": "ViT, 12 heads", "qwen2": "Qwen2"}
GROUPED = {"joint": "joint SVD", "procrustes": "Procrustes", "mean": "mean"}
Row = dict[str, Any]


def minilm_rules() -> str:
    """How far training texts move when heads are chosen by a layer's error, and by its effect."""
    if not (RESULTS / "minilm-rules.json").exists():
        return NOT_RUN
    found = read_json("minilm-rules.json")
    shares = list(dict.fromkeys(tuple(row["shares"]) for row in found["rows"]))
    rows = []
    for each in shares:
        both = {row["rule"]: row for row in found["rows"] if tuple(row["shares"]) == each}
        numbers = [f"{both[rule]['distance']:.4f}" for rule in ("error", "effect")]
        cosines = [f"{1e4 * both[rule]['cosines']:.1f}" for rule in ("error", "effect")]
        rows.append((f"{72 - sum(each)} of 72", " ".join(map(str, each)), *numbers, *cosines))
    columns = ("distance, by error", "by effect", "cosines, by error", "by effect")
    text = table(("removed", "heads of each layer", *columns), rows)
    return (
        f"{text}\n\nDistance: mean cosine distance of {found['others']} other training texts from where the "
        "whole model puts them;\ncosines: mean square by which those between the texts change, × 10⁴. Heads "
        f"were chosen and refitted on {found['texts']}\ntraining texts. ({found['machine']}.)"
    )


def minilm_distilled() -> str:
    """MiniLM after a short distillation."""
    rows = [row for row in read_json("trained-minilm.json")["rows"] if row["distilled"]]
    if not rows:
        return NOT_RUN
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cells = {
        (row["removed"], row["method"]): f"{row['change']:.2f} ± {row['half_width']:.2f}" for row in rows
    }
    removed, steps = sorted({row["removed"] for row in rows}), [row["steps"] for row in rows]
    lines = [(f"{count} of 72", *(cells.get((count, each), "–") for each in methods)) for count in removed]
    return (
        f"{table(('removed', *methods), lines)}\n\nAfter {rows[0]['distilled']:.0f} s of distillation each, "
        f"{min(steps):,} to {max(steps):,} steps."
    )


def half() -> str:
    """Half of the heads removed from trained models, and fewer key-value heads."""
    if not (RESULTS / "trained-half.json").exists():
        return NOT_RUN
    found = read_json("trained-half.json")
    lines: list[tuple[str, ...]] = []
    for kind, title in KINDS.items():
        for samples in (512, 64):
            runs = list(_runs(found, kind, samples))
            if runs:
                lines += _lines(title, samples, runs)
    text = table(("model", "samples", "what", "way", "lost"), lines)
    wholes = ", ".join(
        f"{name} {entry['whole']:.2f} {entry['unit']}" for name, entry in found["models"].items()
    )
    return (
        f"{text}\n\nMeans over seeds, from the lowest to the highest. The whole models' losses (points: 100 "
        f"less the accuracy): {wholes}. ({found['machine']}.)"
    )


def _runs(found: Row, kind: str, samples: int) -> Iterator[list[Row]]:
    for name, entry in found["models"].items():
        run = entry["samples"].get(str(samples))
        if name.rpartition("-")[0] == kind and run is not None:
            yield run["rows"]


def _lines(title: str, samples: int, runs: list[list[Row]]) -> Iterator[tuple[str, ...]]:
    for place, row in enumerate(runs[0]):
        lost = [run[place]["rise"] for run in runs]
        kv_heads = row.get("kv_heads")
        what = "half of the heads" if kv_heads is None else f"{kv_heads} key-value heads"
        first, plus, rest = row["name"].partition(" + ")
        spread = f" ({min(lost):.2f} to {max(lost):.2f})" if len(lost) > 1 else ""
        name = f"{GROUPED.get(first, first)}{plus}{rest}"
        yield title, str(samples), what, name, f"{mean(lost):.2f}{spread}"
