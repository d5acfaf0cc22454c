"""`headcount density`: a formula as a retrieval target, and how close that comes."""

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.commands.options import AsJson

if TYPE_CHECKING:
    from headcount.theory.density.approximate import Density


def density(
    expression: Annotated[
        str, typer.Argument(help="A formula in x[t, j], entry j of token t, from 0.", show_default=False)
    ],
    length: Annotated[int, typer.Option(help="T, the tokens of a sequence.")] = 8,
    token_dim: Annotated[int, typer.Option(help="d, the numbers of a token.")] = 1,
    sharpness: Annotated[float, typer.Option(help="Of the smooth extrema inside F_0.")] = 1_000.0,
    degree: Annotated[int, typer.Option(help="Of the polynomial inside F_0.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the fit and of the search.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Turn any formula into a retrieval target, and see how close it comes.

    A formula is made of numbers, pi, x, x[t, j], + - * / ** and sin, cos, tanh,
    exp, log, sqrt, abs, min, max, mean, sum. Its errors are the largest for x
    between 0 and 1 that ascents from many starts find, at the sharpness and degree
    asked for and below. Takes about half a minute, longer with more monomials.
    """
    from rich.console import Console

    from headcount.theory.density.approximate import approximate_target, check_size
    from headcount.theory.density.expression import Expression

    check_size(length=length, token_dim=token_dim, degree=degree)
    target = Expression(expression, length=length, token_dim=token_dim)
    size = {"length": length, "token_dim": token_dim}
    with Console(stderr=True, quiet=as_json).status("") as status:
        fitted = {}
        for lower in _degrees(degree):
            status.update(f"degree {lower}: fitting the polynomial")
            fitted[lower] = approximate_target(target, **size, sharpness=sharpness, degree=lower, seed=seed)
        errors = [error for found in fitted.values() for error in _errors(found, status.update)]
    if as_json:
        summary = {"expression": expression, **size, **_summary(fitted[degree]), "errors": errors}
        print(json.dumps(summary, indent=2, allow_nan=False))
    else:
        _show(expression, fitted[degree], errors)


def _degrees(degree: int) -> list[int]:
    """The degree asked for and up to two lower ones; first the highest, where a refusal is most likely."""
    return sorted({max(1, round(part * degree / 3)) for part in (1, 2, 3)}, reverse=True)


def _errors(found: "Density", say: Callable[[str], None]) -> Iterator[dict[str, Any]]:
    """What is found at the sharpness asked for, at a tenth and at a hundredth of it, and without blur."""
    from headcount.theory.density.approximate import BLUNTEST

    degree, sharpest = found.polynomial.basis.degree, found.recovery.sharpness
    for sharpness in (sharpest / 100, sharpest / 10, sharpest):
        if sharpness >= BLUNTEST:
            say(f"degree {degree}, sharpness {sharpness:g}: looking for the largest error")
            error = found.sharpened(sharpness).measured_error()
            yield {"degree": degree, "sharpness": sharpness, "error": error}
    yield {"degree": degree, "sharpness": None, "error": found.polynomial_error()}


def _summary(found: "Density") -> dict[str, Any]:
    return {
        "dimension": found.dimension,
        "set_size": found.recovery.sets.shape[1],
        "monomials": found.monomials,
        "recovery_bound": found.recovery_bound,
        "recovery_error": found.recovery_error(),
        "guarantees": found.guarantees,
    }


def _show(expression: str, found: "Density", errors: list[dict[str, Any]]) -> None:
    from headcount.commands.tables import show_lines, show_table
    from headcount.results.numbers import scientific

    summary = _summary(found)
    lines = (
        expression,
        f"D = {summary['dimension']} retrievals, from all sets of {summary['set_size']} "
        f"of {found.recovery.length} positions",
        f"{summary['monomials']} monomials of degree {found.polynomial.basis.degree} or less",
        f"every entry of x is recovered to within {summary['recovery_bound']:.3g} (proved), "
        f"{summary['recovery_error']:.3g} (found)",
    )
    degrees = sorted({error["degree"] for error in errors})
    errors = sorted(errors, key=lambda error: error["degree"])
    rows = []
    for sharpness in dict.fromkeys(error["sharpness"] for error in errors):
        row = [error for error in errors if error["sharpness"] == sharpness]
        name = "polynomial alone" if sharpness is None else f"sharpness {sharpness:g}"
        rows.append((name, *(scientific(error["error"]) for error in row)))
    show_lines(lines)
    columns = ("largest error", *(f"degree {degree}" for degree in degrees))
    show_table(columns, rows, texts=("largest error",))
    show_lines(f"- {line}" for line in found.guarantees)
