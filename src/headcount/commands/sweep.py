"""`headcount sweep`: train any grid, and write the page of its results."""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from headcount.commands.options import INCOMPLETE, AsJson, Out
from headcount.commands.report import refuse_estimate, report_on
from headcount.commands.training import Address, Engine, EngineName


def sweep(
    spec: Annotated[Path, typer.Argument(help="A .toml or .py file.", show_default=False)],
    out: Out = Path("runs"),
    seed: Annotated[int, typer.Option(help="Added to every seed of SPEC.", min=0)] = 0,
    engine: EngineName = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Train a whole grid; run it again to resume.

    SPEC is a TOML file with the tables task, model and training, in which a
    list is an axis of the grid, or a Python file that defines `grid` or
    `trials`. `headcount example` prints one to start from. With --engine ray
    members are trained by the workers of a Ray cluster, on its GPUs or else its
    cores, and the folder is written here alone; either engine goes on with what
    the other one left. See docs/cluster.md.
    """
    from headcount.commands.specfile import load
    from headcount.commands.training import train_in_view
    from headcount.results.store import Store

    chosen = Engine(engine, address)
    chosen.prepare()
    trials = [replace(trial, seed=trial.seed + seed) for trial in load(spec)]
    command = f"headcount sweep {shlex.quote(str(spec))} --out {shlex.quote(str(out))} --seed {seed}"
    command += chosen.options
    store = Store(out)
    refuse_estimate(store)
    seen = train_in_view(trials, store, command=command, quiet=as_json, engine=chosen)
    report_on(store, title=spec.name, command=command, as_json=as_json, reported=seen.problems)
    if seen.given_up:
        print(
            f"headcount: error: {seen.given_up:,} of {len(trials):,} members are missing because their packs "
            f"failed; to try again: {command}",
            file=sys.stderr,
        )
        raise typer.Exit(INCOMPLETE)


def example() -> None:
    """Print a SPEC for `headcount sweep` to start from."""
    from headcount.commands.specfile import EXAMPLE

    print(EXAMPLE, end="")
