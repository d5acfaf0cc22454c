"""`headcount construct`: a transformer with explicit weights for a task, its bound and its measured error."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headcount.commands.options import AsJson

if TYPE_CHECKING:
    from headcount.theory.constructions.construction import Construction, WorstCase


def construct(
    kind: Annotated[
        Literal["specialise", "memorise"], typer.Argument(help="One head per coordinate, or one wide head.")
    ],
    task: Annotated[str, typer.Argument(help="The name of a task, such as bowls or max_sum.")] = "bowls",
    dimension: Annotated[int | None, typer.Option(help="D.", min=1, show_default="the task's own")] = None,
    token_dim: Annotated[int | None, typer.Option(help="d.", min=1, show_default="the task's own")] = None,
    length: Annotated[int, typer.Option(help="T.")] = 16,
    epsilon: Annotated[float, typer.Option(help="The error that is allowed anywhere on [0,1]^(T×d).")] = 0.01,
    positions: Annotated[str, typer.Option(help="S_i: all, first half, second half, even or odd.")] = "all",
    seed: Annotated[int, typer.Option(help="Seed of the searches.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the weights to this .npz file.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a transformer by formula, without training, and measure it.

    `specialise` gives each of the D coordinates a head of its own; `memorise` has
    one head as wide as the whole sequence. Both come with a bound on
    their error; the largest error that a search in float64 finds is shown beside it.
    """
    from dataclasses import replace

    import numpy as np
    from jax import tree_util

    from headcount.results.files import write_whole
    from headcount.tasks.registry import build
    from headcount.theory.constructions.memorise import memorise
    from headcount.theory.constructions.specialise import specialise
    from headcount.validation import expected

    if out is not None and out.suffix != ".npz":
        raise expected("--out", "a file that ends in .npz", out.name)
    given = {"positions": positions, "dimension": dimension, "token_dim": token_dim}
    options = {name: value for name, value in given.items() if value is not None}
    chosen = replace(build(task, **options), distribution="uniform")
    make = specialise if kind == "specialise" else memorise
    made = make(chosen, length=length, epsilon=epsilon, seed=seed)
    if out is not None:
        leaves = tree_util.tree_leaves_with_path(made.model)
        arrays = {tree_util.keystr(place).lstrip("."): np.asarray(leaf) for place, leaf in leaves}
        write_whole(out, lambda file: np.savez(file, allow_pickle=False, **arrays))
    found = made.measured_error(seed=seed)
    if as_json:
        print(json.dumps({**made.to_json(), "measured_error": found.error}, indent=2, allow_nan=False))
        return
    _show(made, found)
    if out is not None:
        print(f"Weights: {out}")


def _show(made: "Construction", found: "WorstCase") -> None:
    from headcount.commands.tables import show_lines, show_table

    task, architecture = made.task, made.model.architecture
    encoder, readout = map(_widths, (architecture.encoder_hidden, architecture.readout_hidden))
    rows = [
        ("task", f"{task.name}, D = {task.dimension}, d = {task.token_dim}, T = {made.length}"),
        ("heads", f"{architecture.heads} of {architecture.head_dim} numbers, beta = {architecture.beta:.4g}"),
        ("hidden layers", f"P: {encoder}; F: {readout}"),
        ("parameters", f"{architecture.counted_parameters():,} in P and F"),
        ("allowed error", f"{made.epsilon:.3g}"),
        ("bound", f"{made.bound.total:.3g}, {'proven' if made.bound.proven else 'partly measured'}"),
        *((f"  {name}", f"{value:.3g}") for name, value in made.bound.parts.items()),
        ("measured error", f"{found.error:.3g}, the largest of {found.starts} ascents"),
    ]
    show_table(("what", "value"), rows, texts=("what", "value"), header=False)
    show_lines(f"- {line}" for line in made.guarantees)


def _widths(sizes: tuple[int, ...]) -> str:
    return " → ".join(f"{size:,}" for size in sizes) or "none"
