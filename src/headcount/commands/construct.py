"""`headcount construct`: a transformer with explicit weights for a task, its bound and its measured error."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headcount.commands.options import AsJson
from headcount.validation import expected

if TYPE_CHECKING:
    from headcount.models.architecture import Architecture
    from headcount.tasks.retrieval import RetrievalTask
    from headcount.theory.constructions.construction import Construction, WorstCase

SHAPE = "A shape of your own (specialise)"


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
    layers: Annotated[int | None, typer.Option(help="L.", show_default="1", rich_help_panel=SHAPE)] = None,
    heads: Annotated[int | None, typer.Option(help="h.", show_default="D", rich_help_panel=SHAPE)] = None,
    kv_heads: Annotated[
        int | None, typer.Option(help="Key-value heads.", show_default="h", rich_help_panel=SHAPE)
    ] = None,
    head_dim: Annotated[
        int | None,
        typer.Option(help="n, numbers per head.", show_default="as few as will do", rich_help_panel=SHAPE),
    ] = None,
    reading: Annotated[
        str | None,
        typer.Option(
            help="Where it is read: every (layer), last (layer) or 'last token'.",
            show_default="every",
            rich_help_panel=SHAPE,
        ),
    ] = None,
    sees_positions: Annotated[
        bool, typer.Option("--sees-positions", help="Let tokens know their places.", rich_help_panel=SHAPE)
    ] = False,
    feedforward: Annotated[
        bool, typer.Option("--feedforward", help="Let layers have one.", rich_help_panel=SHAPE)
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the searches.", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write the weights to this .npz file.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build a transformer by formula, without training, and measure it.

    `specialise` gives each of the D coordinates a head of its own; `memorise` has
    one head as wide as the whole sequence. Both come with a proven bound on their
    error, or where networks had to be measured with an estimate: never less than
    the largest error that a search in float64 finds, which is shown beside it.
    With --layers, --heads and the like, `specialise` builds that shape, or refuses
    with the law that it would break.
    """
    from dataclasses import replace

    from headcount.theory.constructions.memorise import memorise
    from headcount.theory.constructions.specialise import specialise

    if out is not None:
        _check_ending(out)
    chosen = _task(task, positions=positions, dimension=dimension, token_dim=token_dim)
    shape: dict[str, Any] = {"layers": layers, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    shape |= {"reading": reading, "positions": sees_positions or None, "feedforward": feedforward or None}
    asked = _asked(kind, shape)
    make = specialise if kind == "specialise" else memorise
    made = make(chosen, length=length, epsilon=epsilon, seed=seed, **asked)
    if out is not None:
        _write_weights(made, out)
    found = made.measured_error(seed=seed)
    made = replace(made, error=made.error.including(found))
    if as_json:
        print(json.dumps({**made.to_json(), "measured_error": found.error}, indent=2, allow_nan=False))
        return
    _show(made, found)
    if out is not None:
        print(f"Weights: {out}")


def _check_ending(out: Path) -> None:
    if out.suffix != ".npz":
        raise expected("--out", "a file that ends in .npz", out.name)


def _asked(kind: str, shape: dict[str, Any]) -> dict[str, Any]:
    """What was asked of the shape; one wide head has none to choose."""
    asked = {name: value for name, value in shape.items() if value is not None}
    if kind == "memorise" and asked:
        name, value = next(iter(asked.items()))
        option = {"positions": "sees-positions"}.get(name, name.replace("_", "-"))
        raise expected(f"--{option}", "only with specialise", value)
    return asked


def _task(name: str, **given: str | int | None) -> "RetrievalTask":
    """The task, with tokens anywhere in the unit cube."""
    from dataclasses import replace

    from headcount.tasks.registry import build

    options = {option: value for option, value in given.items() if value is not None}
    return replace(build(name, **options), distribution="uniform")


def _write_weights(made: "Construction", out: Path) -> None:
    import numpy as np
    from jax import tree_util

    from headcount.results.files import write_whole

    leaves = tree_util.tree_leaves_with_path(made.model)
    arrays = {tree_util.keystr(place).lstrip("."): np.asarray(leaf) for place, leaf in leaves}
    write_whole(out, lambda file: np.savez(file, allow_pickle=False, **arrays))


def _show(made: "Construction", found: "WorstCase") -> None:
    from headcount.commands.tables import show_lines, show_table

    task, architecture = made.task, made.model.architecture
    encoder, readout = map(_widths, (architecture.encoder_hidden, architecture.readout_hidden))
    rows = [
        ("task", f"{task.name}, D = {task.dimension}, d = {task.token_dim}, T = {made.length}"),
        ("shape", _shape(architecture)),
        ("hidden layers", f"P: {encoder}; F: {readout}"),
        ("parameters", f"{architecture.counted_parameters():,} in P and F"),
        ("allowed error", f"{made.epsilon:.3g}"),
        ("bound" if made.error.proven else "estimate", str(made.error)),
        *((f"  {name}", f"{value:.3g}") for name, value in made.error.parts.items()),
        ("measured error", f"{found.error:.3g}, the largest of {found.starts} ascents"),
    ]
    show_table(("what", "value"), rows, texts=("what", "value"), header=False)
    show_lines(f"- {line}" for line in made.guarantees)


def _shape(architecture: "Architecture") -> str:
    shared = "" if architecture.group_size == 1 else f", {architecture.key_value_heads} key-value heads"
    layers = "" if architecture.layers == 1 else f"{architecture.layers} layers of "
    heads = f"{layers}{architecture.heads} heads of {architecture.head_dim} numbers{shared}"
    return f"{heads}, width {architecture.width}, beta = {architecture.beta:.4g}"


def _widths(sizes: tuple[int, ...]) -> str:
    return " → ".join(f"{size:,}" for size in sizes) or "none"
