"""What the law of distances measures, in results files: dimension.py writes it, fit_law.py reads it."""

from dataclasses import fields
from typing import Any

import numpy as np

from headcount.estimate.curve import Curve
from headcount.estimate.verdict import DimensionLaw, Measures


def recorded(curve: Curve, law: DimensionLaw) -> dict[str, Any] | None:
    """What a law measures of a curve, and its probability of every D; None without two head counts."""
    if len(curve.heads) < 2:
        return None
    measured = {name: values.tolist() for name, values in vars(Measures.of(curve)).items()}
    return {"heads": curve.heads, **measured, "probabilities": law.probabilities(curve)}


def measures(found: dict[str, Any]) -> Measures:
    """The measures as they were before they were recorded, to the last bit."""
    return Measures(**{field.name: np.array(found[field.name]) for field in fields(Measures)})


def probabilities(found: dict[str, Any]) -> dict[int, float]:
    """The recorded probabilities; keys of JSON are text."""
    return {int(heads): chance for heads, chance in found["probabilities"].items()}


def margin(dimension: int | None, found: dict[str, Any] | None) -> dict[str, float] | None:
    """The probability of the reported D by the law alone, and of the next likeliest; None without a D.

    The next one is likelier where other evidence than the curves decided.
    """
    if dimension is None or found is None:
        return None
    chances = probabilities(found)
    other = max(chances.keys() - {dimension}, key=lambda heads: chances[heads])
    return {
        "probability": chances.get(dimension, 0.0),
        "next": other,
        "probability_of_next": chances[other],
    }
