"""From the answer to what to type: `num_heads` for every usual depth, and what D does not tell."""

from dataclasses import dataclass
from typing import Any

from headcount.estimate.num_heads import READINGS, legal_heads
from headcount.estimate.verdict import Estimate, measure_of

GUESSED = "~"
MAX_EXTRA = 3  # times the heads that are needed: with more, each head has little left
NOT_TOLD = (
    "D does not tell the width or the training: d_model must hold what a token carries, and heads do not "
    "make up for too few samples or steps.",
    "D is that of one output for a sequence. A model with an output at every token needs the heads of its "
    "hardest token: estimate that output.",
)


@dataclass(frozen=True)
class Advice:
    """Rows of layers, encoder and decoder, under a heading, with what the marks and the columns mean."""

    heading: str
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def advice_of(found: Estimate) -> Advice | None:
    """What to type as num_heads; None where D is unknown."""
    shapes = found.evidence.get("shapes")
    if shapes is None:
        return None
    d_model = shapes.get("d_model")
    width = "" if d_model is None else f", with d_model={d_model}"
    cells = [
        (str(encoder["layers"]), *(_cell(found, row) for row in (encoder, decoder)))
        for encoder, decoder in zip(*(shapes[reading] for reading in READINGS), strict=True)
    ]
    different = {cell.rstrip(f" {GUESSED}") for row in cells for cell in row[1:]}
    if len(different) == 1:
        return Advice(f"Type {different.pop()}{width}, at any depth.", (), ())
    return Advice(f"What to type, by the layers of your model{width}:", tuple(cells), _notes(found, cells))


def _cell(found: Estimate, row: dict[str, Any]) -> str:
    """The recommendation is for one layer; deeper models take what D takes there."""
    shapes, one_layer = found.evidence["shapes"], row["layers"] == 1
    if "d_model" in shapes:
        heads = (shapes if one_layer else row)["num_heads"]
    else:
        heads = found.recommended_heads if one_layer else row["heads"]
    return "–" if heads is None else f"num_heads={heads}{f' {GUESSED}' * (row['behind'] == 'guessed')}"


def _about_width(heads: int, d_model: int) -> list[str]:
    """A width with no divisor near the heads that one layer needs: another one is the better choice.

    >>> _about_width(3, 512)
    []
    >>> _about_width(3, 509)
    ['d_model=509 has no divisor from 3 to 508; a width that 3 divides, such as 510, suits better.']
    >>> _about_width(3, 2)
    ['d_model=2 is less than 3 heads need: – where there is no such number.']
    """
    if d_model < heads:
        return [f"d_model={d_model} is less than {heads} heads need: – where there is no such number."]
    legal = legal_heads(heads, d_model)
    if legal <= MAX_EXTRA * heads:
        return []
    return [
        f"d_model={d_model} has no divisor from {heads} to {legal - 1}; a width that {heads} divides, such "
        f"as {-(-d_model // heads) * heads}, suits better."
    ]


def _notes(found: Estimate, cells: list[tuple[str, ...]]) -> tuple[str, ...]:
    notes = [
        "D was measured with one layer; deeper models share the work (headcount plan has their costs). "
        "Encoder: its class token reads in every layer; if it reads in the last one only, take the decoder's."
    ]
    if found.dimension is not None and found.recommended_heads != found.dimension:
        measure = measure_of(found.labels)
        notes.append(f"With one layer the {measure} is clearly lower than with D = {found.dimension} heads.")
    d_model = found.evidence["shapes"].get("d_model")
    if d_model is None:
        notes.append("If that does not divide your d_model, take the next number that does.")
    else:
        notes += _about_width(found.recommended_heads or 1, d_model)
    if any(GUESSED in cell for row in cells for cell in row):
        notes.append(f"{GUESSED} guessed: neither such a shape nor a smaller one was trained for this D.")
    return tuple(notes)
