"""`headcount rates`: exponents as measured on the constructions and the collisions, beside the theory's."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from headcount.theory.rates import Rate


def rates(
    task: Annotated[
        str, typer.Argument(help="The name of a task whose constructions are counted.")
    ] = "bowls",
    dimension: Annotated[int, typer.Option(help="D.", min=1)] = 3,
    token_dim: Annotated[int, typer.Option(help="d.", min=1)] = 2,
    length: Annotated[int, typer.Option(help="T.", min=1)] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the searches.", min=0)] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")
    ] = False,
) -> None:
    """Compare measured exponents with predicted ones.

    Parameters of both constructions for epsilon from 0.1 to 0.0001, beside gamma
    (measured on their networks) and 1 + gamma; and for one head on two bowls the
    closest representations of sequences whose targets are 3 epsilon apart, beside
    k + 1. Takes about half a minute.
    """
    from headcount.engine.machine import versions
    from headcount.tasks.registry import accepted, build
    from headcount.theory.rates import gap_rates, guaranteed, parameter_rates

    chosen = build(task, **accepted(task, dimension=dimension, token_dim=token_dim))
    promised = guaranteed(chosen, length=length, seed=seed)
    sizes_of = f"D = {chosen.dimension}, d = {chosen.token_dim}, T = {length}"
    sizes, gaps = parameter_rates(chosen, length=length, seed=seed), gap_rates(seed=seed)
    if as_json:
        groups = {"parameters": sizes, "gaps": gaps}
        found: dict[str, Any] = {name: [rate.to_json() for rate in group] for name, group in groups.items()}
        about = {"task": task, "length": length, "seed": seed, "guarantees": promised, "versions": versions()}
        print(json.dumps({**about, **found}, indent=2, allow_nan=False))
        return
    print(f"{task}, {sizes_of}: growth from epsilon = 0.1 to 0.0001")
    _show(sizes, sign="≤")
    print("two bowls, one head of one number: fall of the gap as epsilon falls")
    _show(gaps, sign="≥")
    for line in promised:
        print(f"- {line}")


def _show(rates: "Iterable[Rate]", *, sign: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.width = min(console.width, 80)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, show_edge=False)
    table.add_column("what", min_width=36)
    for name in ("exponent", "theory", "first", "last"):
        table.add_column(name, justify="right")
    for rate in rates:
        table.add_row(
            rate.name,
            f"{rate.exponent:.2f}",
            f"{sign} {rate.predicted:.2f}",
            f"{rate.values[0]:.3g}",
            f"{rate.values[-1]:.3g}",
        )
    console.print(table)
