"""From D to what a model's settings take: `num_heads` has to divide `d_model`."""

from typing import Any

from headcount.theory.plan import MAX_WIDTH, divisors, heads_by_layers
from headcount.validation import check_integer, expected

READINGS = ("encoder", "decoder")


def check_d_model(d_model: object) -> int | None:
    """The width of a user's own model; None where it is not given."""
    return None if d_model is None else check_integer("d_model", d_model, at_least=1, at_most=MAX_WIDTH)


def legal_heads(dimension: int, d_model: int) -> int:
    """The smallest divisor of `d_model` that is at least `dimension`: heads share the width in equal parts.

    >>> legal_heads(3, 512), legal_heads(9, 768), legal_heads(5, 13)
    (4, 12, 13)
    """
    if d_model < dimension:
        raise expected("d_model", f"an integer >= {dimension}, the heads that are needed", d_model)
    return next(count for count in divisors(d_model) if count >= dimension)


def shapes_of(dimension: int, *, recommended: int | None, d_model: int | None) -> dict[str, Any]:
    """The heads that D takes at each usual depth; with a width also `num_heads`, the next that divides it.

    None in place of a number that the width does not have. The one beside the width is that of one layer, for
    which the recommendation is.

    >>> [row["num_heads"] for row in shapes_of(3, recommended=3, d_model=512)["encoder"]]
    [4, 1, 1, 1, 1]
    """
    shapes = heads_by_layers(dimension)
    if d_model is None:
        return shapes
    for reading in READINGS:
        for row in shapes[reading]:
            row["num_heads"] = _legal_or_none(row["heads"], d_model)
    return {**shapes, "d_model": d_model, "num_heads": _legal_or_none(recommended, d_model)}


def _legal_or_none(heads: int | None, d_model: int) -> int | None:
    return None if heads is None or d_model < heads else legal_heads(heads, d_model)
