"""Quotes of what the theory measured: constructions, collisions, density, rates."""

from typing import Any

from quoting import read_json, table

from headcount.results.numbers import scientific
from headcount.theory.plan import LAYERS, heads_by_layers

MARKS = {
    "~": "~ guessed: neither such a shape nor a smaller one was trained for this D",
    "(": "in brackets: fewer heads, for which weights exist",
    "–": "–: no such shape is known",
}


def constructions() -> str:
    rows = []
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for row in read_json("constructions.json")["rows"]:
        groups.setdefault((row["construction"], row["task"], -row["epsilon"]), []).append(row)
    for (construction, task, epsilon), cases in sorted(groups.items(), reverse=True):
        fine = [case for case in cases if "refused" not in case]
        against = [
            max((case["measured_error"] / over(case) for case in fine), default=None)
            for over in (lambda case: case["epsilon"], promised)
        ]
        ratios = ("–" if ratio is None else f"{ratio:.2f}" for ratio in against)
        rows.append((construction, task, f"{-epsilon:g}", len(fine), len(cases) - len(fine), *ratios))
    names = ("construction", "task", "allowed error", "cases", "too large")
    return table((*names, "worst measured / allowed", "/ bound or estimate"), rows)


def promised(row: dict[str, Any]) -> float:
    return float(row["bound"] if "bound" in row else row["estimate"])


def collisions() -> str:
    rows = [
        (
            row["length"],
            row["heads"],
            scientific(row["test_error"]),
            f"**{row['inside']['target_gap']:.2g}**",
            f"{row['inside']['typical_gap']:.2g}",
            f"{row['anywhere']['target_gap']:.2g}",
            scientific(row["inside"]["lipschitz_at_least"]),
        )
        for row in read_json("collisions.json")["collisions"]
    ]
    names = ("T", "heads", "test NMSE", "gap like the data", "typical", "anywhere")
    return table((*names, "Lipschitz needed, at least"), rows)


def density(name: str = "density") -> str:
    found = read_json(f"{name}.json")
    degrees = sorted({row["degree"] for row in found["errors"]})
    errors = {(row["sharpness"], row["degree"]): row["error"] for row in found["errors"]}
    rows = [
        (
            "the polynomial alone" if sharpness is None else f"{sharpness:g}",
            *(scientific(errors[sharpness, degree]) for degree in degrees),
        )
        for sharpness in dict.fromkeys(sharpness for sharpness, _ in errors)
    ]
    return table(("sharpness", *(f"degree {degree}" for degree in degrees)), rows)


def built() -> str:
    gaps = ("twice_epsilon", "gap_like_the_data", "gap_anywhere")
    rows = [
        (row["task"], row["dimension"], row["length"], *(f"{row[gap]:.2g}" for gap in gaps))
        for row in read_json("theory.json")["collisions_of_specialised_models"]
    ]
    return table(("task", "D", "T", "2ε", "gap like the data", "gap anywhere"), rows)


def rates() -> str:
    found, others = read_json("rates.json"), ("formula", "from_measured_gamma")
    rows = [
        (
            rate["name"],
            f"{rate['exponent']:.2f}",
            f"{sign} {rate['theorem']:.2f}",
            *("–" if (cell := rate[name]) is None else f"{cell:.2f}" for name in others),
        )
        for group, sign in (("parameters", "≤"), ("gaps", "≥"))
        for rate in found[group]
    ]
    names = ("what", "measured exponent", "theorem, γ = 2", "formula of the knots", "from the measured γ")
    return table(names, rows)


def heads_needed() -> str:
    """How many heads D takes at each depth, for an encoder and for a decoder."""
    readings = {"encoder": "encoder, every layer", "decoder": "decoder, last token"}
    rows = [
        (dimension, named, *map(_heads, heads_by_layers(dimension)[reading]))
        for dimension in (1, 2, 3, 4, 6, 8, 12)
        for reading, named in readings.items()
    ]
    names = ("D", "", *(f"{count} layer{'s' * (count > 1)}" for count in LAYERS))
    written = "".join(str(cell) for row in rows for cell in row[2:])
    marks = "; ".join(meaning for mark, meaning in MARKS.items() if mark in written)
    return f"{table(names, rows)}\n\n({marks}.)"


def _heads(row: dict[str, Any]) -> str:
    """Of trained members; in brackets a smaller number for which weights exist."""
    heads, built = row["heads"], row["constructed_heads"]
    text = "–" if heads is None else f"{heads}{'~' * (row['behind'] == 'guessed')}"
    return text if built is None or (heads is not None and built >= heads) else f"{text} ({built})"
