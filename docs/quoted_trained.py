"""What is quoted about heads removed from trained models."""

from statistics import mean
from typing import Any

from quoting import NOT_RUN, RESULTS, read_json, table

METHODS = {
    "elimination": "elimination",
    "gradient": "gradient importance",
    "magnitude": "magnitude",
    "random": "random",
}
GRADIENT = ("gradient", "gradient, normalised")

Rows = list[dict[str, Any]]


def minilm() -> str:
    """What heads of MiniLM cost, by how they are chosen, refitted or not."""
    if not (RESULTS / "trained-minilm.json").exists():
        return NOT_RUN
    found = read_json("trained-minilm.json")
    columns = [
        (name, refit)
        for name in METHODS
        for refit in (True, False)
        if any(_matches(row, name, refit) for row in found["rows"])
    ]
    names = [f"{METHODS[name]}{' + refit' * refit}" for name, refit in columns]
    rows = []
    for removed in sorted({row["removed"] for row in found["rows"]}):
        some = [row for row in found["rows"] if row["removed"] == removed]
        cells = [_cell([row for row in some if _matches(row, *column)]) for column in columns]
        rows.append((f"{removed} of 72", *cells))
    return f"{table(('removed', *names), rows)}\n\n{_about(found)}"


def minilm_way() -> str:
    """MiniLM from the command to the shrunk model."""
    if not (RESULTS / "inspect-minilm.json").exists():
        return NOT_RUN
    found = read_json("inspect-minilm.json")
    rows = [
        (
            place,
            f"{layer['needed'] or '?'} of {layer['heads']}",
            f"{layer['low']} to {layer['high']}",
            layer["uniform"],
            layer["free"],
        )
        for place, layer in enumerate(found["layers"])
    ]
    before, after = found["megabytes"]
    ends = (
        f"({found['texts']:,} texts, {found['seconds']:.0f} s on {found['machine']}.) Loaded from its "
        f"folder, the smaller model ({before:.1f} MB → {after:.1f} MB) has an MRR@10 of "
        f"{found['mrr'] + found['change'] / 100:.4f} in place of {found['mrr']:.4f} on the held-out lists: "
        f"{found['change']:+.2f} ± {found['half_width']:.2f} points."
    )
    columns = ("layer", "needs alone", "95%", "uniform plan", "free plan")
    gains = table(("", "before", "after", "ratio"), found["gains"]["rows"]) if found["gains"] else ""
    return f"> {found['sentence']}\n\n{table(columns, rows)}\n\n{ends}\n\n{gains}".rstrip()


def minilm_cuda() -> str:
    """How long an inspection takes on a GPU."""
    if not (RESULTS / "inspect-minilm-cuda.json").exists():
        return NOT_RUN
    found = read_json("inspect-minilm-cuda.json")
    return (
        f"On {found['machine']} an inspection of {found['texts']:,} texts takes {found['seconds']:.0f} s "
        f"(`inspect_minilm.py --device cuda`)."
    )


def minilm_shares() -> str:
    """How many heads each layer keeps."""
    if not (RESULTS / "trained-minilm.json").exists():
        return NOT_RUN
    rows = [
        (f"{row['removed']} of 72", *map(len, row["kept"]))
        for row in sorted(read_json("trained-minilm.json")["rows"], key=lambda row: int(row["removed"]))
        if _matches(row, "elimination", True)
    ]
    return table(("removed", *(f"layer {place}" for place in range(6))), rows)


def _matches(row: dict[str, Any], method: str, refit: bool) -> bool:
    same = row["method"] in GRADIENT if method == "gradient" else row["method"] == method
    return same and row["refit"] == refit and not row["distilled"]


def _cell(rows: Rows) -> str:
    """The better one of several ways to score; the mean of several seeds."""
    if not rows:
        return "–"
    if len({row["seed"] for row in rows}) > 1:
        changes = [row["change"] for row in rows]
        return f"{mean(changes):.2f} ({min(changes):.1f} to {max(changes):.1f})"
    best = max(rows, key=lambda row: float(row["change"]))
    return f"{best['change']:.2f} ± {best['half_width']:.2f}"


def _about(found: dict[str, Any]) -> str:
    return (
        f"Change of MRR@10 in points, ± 95% over queries, paired; the whole model has {found['mrr']:.4f} "
        f"± {1.96 * found['standard_error']:.4f}\n({found['queries']:,} queries with 64 candidates each, "
        f"{found['precision']}). Heads were chosen and refitted on\n{found['calibration_texts']:,} training "
        f"texts, {found['calibration_tokens']:,} tokens. Gradient importance: the better one of plain and\n"
        f"normalised. ({found['machine']}.)"
    )
