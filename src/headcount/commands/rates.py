"""`headcount rates`: exponents as measured on the constructions and the collisions, beside the theory's."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.commands.options import AsJson

if TYPE_CHECKING:
    from headcount.theory.rates import Rate

DEFAULTS = {"dimension": 3, "token_dim": 2}


def rates(
    task: Annotated[str, typer.Argument(help="The task whose constructions are counted.")] = "bowls",
    dimension: Annotated[int | None, typer.Option(help="D.", min=1, show_default="3")] = None,
    token_dim: Annotated[int | None, typer.Option(help="d.", min=1, show_default="2")] = None,
    length: Annotated[int, typer.Option(help="T.", min=1)] = 16,
    smallest_epsilon: Annotated[float, typer.Option(help="The finest error to build for.")] = 1e-4,
    seed: Annotated[int, typer.Option(help="Seed of the searches.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare measured exponents with those of the theory.

    Parameters of both constructions for epsilon from 0.1 down, beside what the
    theorem says with gamma = 2, what the formula of the knots says, and what
    follows from the gamma measured on their networks (a check, not a prediction);
    and for one head on two bowls the
    closest representations of sequences whose targets are 3 epsilon apart, beside
    k + 1. Takes about half a minute; minutes where F_0 must be fitted.
    """
    from headcount.tasks.registry import build, with_defaults
    from headcount.theory.rates import gap_rates, geometric, guaranteed, parameter_rates
    from headcount.trials.machine import this_machine
    from headcount.validation import check_number
    from headcount.version import versions

    chosen = build(task, **with_defaults(task, DEFAULTS, dimension=dimension, token_dim=token_dim))
    check_number("smallest_epsilon", smallest_epsilon, above=0, at_most=0.05)
    epsilons = geometric(smallest_epsilon)
    promised = guaranteed(chosen, length=length, seed=seed)
    sizes, gaps = parameter_rates(chosen, length=length, epsilons=epsilons, seed=seed), gap_rates(seed=seed)
    if as_json:
        summary = {
            "task": task,
            "dimension": chosen.dimension,
            "token_dim": chosen.token_dim,
            "machine": this_machine().name,
            "length": length,
            "seed": seed,
            "guarantees": promised,
            "versions": versions(),
            "parameters": [rate.to_json() for rate in sizes],
            "gaps": [rate.to_json() for rate in gaps],
        }
        print(json.dumps(summary, indent=2, allow_nan=False))
        return
    sizes_of, reached = f"D = {chosen.dimension}, d = {chosen.token_dim}, T = {length}", sizes[0].epsilons
    print(f"{task}, {sizes_of}: growth from epsilon = {reached[0]:g} to {reached[-1]:.1g}")
    _show(sizes, sign="≤")
    print("two bowls, one head of one number: fall of the gap as epsilon falls")
    _show(gaps, sign="≥")
    for line in promised:
        print(f"- {line}")


def _show(rates: "Iterable[Rate]", *, sign: str) -> None:
    from headcount.commands.tables import show_table

    def shown(exponent: float | None) -> str:
        return "-" if exponent is None else f"{exponent:.2f}"

    show_table(
        ("what", "measured", "theorem", "knots", "from measured gamma"),
        [
            (
                rate.name.ljust(28),  # so that the columns of both tables stand below each other
                f"{rate.exponent:.2f}",
                f"{sign} {rate.theorem:.2f}",
                shown(rate.formula),
                shown(rate.from_measured_gamma),
            )
            for rate in rates
        ],
        texts=("what",),
    )
