"""`headcount collide`: train members, find sequences that they cannot distinguish, and draw them."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headcount.commands.options import AsJson, Out

if TYPE_CHECKING:
    from headcount.models.architecture import Architecture
    from headcount.results.store import Store
    from headcount.trials.grid import Grid
    from headcount.trials.task_choice import TaskChoice
    from headcount.trials.trial import TaskTrial

DEFAULTS = {"dimension": 4, "token_dim": 4}
LEARNING_RATES = (3e-3, 1e-2)
TOLERANCE, MIN_TOLERANCE = 1e-4, 1e-12
DEEP_BATCH = 64  # tokens that attend to tokens cost more, and a quarter of the batch is enough
FOLDER = "collisions"  # in the results folder: what was found, with its sequences


def collide(
    task: Annotated[str, typer.Argument(help="The name of a task, such as max_sum or bowls.")] = "max_sum",
    dimension: Annotated[int | None, typer.Option(help="D.", min=1, show_default="4")] = None,
    token_dim: Annotated[int | None, typer.Option(help="d.", min=1, show_default="4")] = None,
    length: Annotated[list[int], typer.Option(help="T; give it again for more.", min=2)] = [16, 64],  # noqa: B006
    max_heads: Annotated[
        int | None, typer.Option(help="Heads from 1 to this.", min=1, show_default="D + 2")
    ] = None,
    layers: Annotated[int, typer.Option(help="L; members of several layers are residual.", min=1)] = 1,
    class_reads: Annotated[
        Literal["last", "every"], typer.Option(help="The layers in which the class token reads, if several.")
    ] = "every",
    width: Annotated[
        int | None, typer.Option(help="E, shared by the heads.", min=1, show_default="8 per head")
    ] = None,
    steps: Annotated[int, typer.Option(help="Training steps of each member.", min=100)] = 20_000,
    train_samples: Annotated[int, typer.Option(help="Sequences to train on.", min=1)] = 50_000,
    seeds: Annotated[
        int, typer.Option(help="Members of each rate; the best on validation data is taken.", min=1)
    ] = 2,
    pairs: Annotated[int, typer.Option(help="Pairs of sequences to refine.", min=2, max=2048)] = 64,
    candidates: Annotated[int, typer.Option(help="Candidates to bin.", min=2, max=10_000_000)] = 1_000_000,
    tolerance: Annotated[
        float, typer.Option(help="How close representations must be, relative to their spread.")
    ] = TOLERANCE,
    seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    out: Out = Path("collisions"),
    as_json: AsJson = False,
) -> None:
    """Find two sequences that a trained model cannot distinguish, though their targets differ.

    Trains members with 1 to D + 2 heads, takes the best of each, and searches for
    pairs with one representation and different targets: easy below D heads, and
    from D on rare where a member was well trained. With several layers fewer heads
    are enough, and the table says which D each shape reaches. Ends with a page.
    """
    from headcount.commands.training import train_in_view
    from headcount.errors import HeadcountError
    from headcount.results.store import Store
    from headcount.tasks.registry import with_defaults
    from headcount.trials.task_choice import TaskChoice
    from headcount.validation import check_number

    check_number("tolerance", tolerance, at_least=MIN_TOLERANCE)
    choice = TaskChoice.of(task, **with_defaults(task, DEFAULTS, dimension=dimension, token_dim=token_dim))
    shape: dict[str, Any] = {"length": tuple(dict.fromkeys(length)), "max_heads": max_heads}
    shape |= {"layers": layers, "class_reads": class_reads, "width": width}
    budget: dict[str, Any] = {"steps": steps, "train_samples": train_samples, "seeds": seeds}
    search = {"pairs": pairs, "candidates": candidates, "tolerance": tolerance, "seed": seed}
    trials = list(_grid(choice, **shape, **budget, seed=seed).trials())
    options = {"dimension": dimension, "token_dim": token_dim, **shape, **budget, **search, "out": out}
    command = _command(task, options)
    store = Store(out)
    train_in_view(trials, store, command=command, quiet=as_json, keep_models=True)
    found = list(_collisions(trials, store, search, quiet=as_json))
    if not found:
        raise HeadcountError(f"every member diverged: a longer warm-up or more steps than {steps} may help")
    cells = {(trial.length, trial.architecture.heads) for trial in trials}
    missing = sorted(cells - {(row["length"], row["heads"]) for row in found})
    page = _draw(found, choice, store, layers=layers)
    if as_json:
        pages = {"page": str(page), "sequences": str(store.folder / FOLDER)}
        print(json.dumps({**_summary(found, missing, command), **pages}, indent=2, allow_nan=False))
        return
    _show(found, dimension=choice.build().dimension)
    for cell_length, heads in missing:
        print(f"T = {cell_length}, h = {heads}: every member diverged, nothing to search")
    print(f"Page: {page}")


def _grid(
    choice: "TaskChoice",
    *,
    length: tuple[int, ...],
    max_heads: int | None,
    width: int | None,
    layers: int,
    class_reads: str,
    steps: int,
    train_samples: int,
    seeds: int,
    seed: int,
) -> "Grid":
    """The members to train; those of several layers are residual."""
    from headcount.trials.grid import Grid
    from headcount.trials.training import Training

    deep = layers > 1
    training = Training(steps=steps - steps % 100, train_samples=train_samples)
    return Grid(
        choice,
        length=length,
        heads=tuple(range(1, (max_heads or choice.build().dimension + 2) + 1)),
        width=width,
        layers=layers,
        seed=tuple(range(seed, seed + seeds)),
        learning_rate=LEARNING_RATES,
        model={"class_reads": class_reads, "residual": True} if deep else (),
        training=replace(training, batch_size=DEEP_BATCH) if deep else training,
    )


def _draw(found: Sequence[dict[str, Any]], choice: "TaskChoice", store: "Store", *, layers: int) -> Path:
    """The page with the chart of what was found."""
    from headcount.report.collisions_chart import collisions_chart
    from headcount.report.rendering import save_chart

    task = choice.build()
    depth = f", L = {layers}" if layers > 1 else ""
    title = f"{choice.name}, D = {task.dimension}, d = {task.token_dim}{depth}"
    page = store.folder / "collisions.html"
    save_chart(collisions_chart(found, dimension=task.dimension, title=title), page)
    return page


def _command(task: str, options: dict[str, Any]) -> str:
    """The line that does it again, without options that were not given or say nothing."""
    unsaid = {"layers", "class_reads"} if options["layers"] == 1 else set()
    if options["tolerance"] == TOLERANCE:
        unsaid.add("tolerance")
    words = ["headcount", "collide", task]
    for name, value in options.items():
        if name in unsaid:
            continue
        values = value if isinstance(value, tuple) else (value,)
        option = f"--{name.replace('_', '-')}"
        words += [word for each in values if each is not None for word in (option, str(each))]
    return shlex.join(words)


def _summary(
    found: Sequence[dict[str, Any]], missing: Sequence[tuple[int, int]], command: str
) -> dict[str, Any]:
    from headcount.trials.machine import this_machine
    from headcount.version import versions

    return {
        "command": command,
        "learning_rates": LEARNING_RATES,
        "machine": this_machine().name,
        "versions": versions(),
        "collisions": [_without_sequences(row) for row in found],
        "without_a_member": missing,
    }


def best_members(trials: "Sequence[TaskTrial]", store: "Store") -> "list[tuple[TaskTrial, float]]":
    """Of every length and number of heads the member of the smallest validation error, and its test error."""
    by_id = {trial.id: trial for trial in trials}
    frame = store.frame()
    frame = frame[frame["trial"].isin(list(by_id)) & (frame["status"] != "diverged")]
    best = frame.sort_values("validation_error").drop_duplicates(["length", "heads"])
    best = best.sort_values(["length", "heads"])
    return [(by_id[trial], float(error)) for trial, error in best[["trial", "test_error"]].to_numpy()]


def _collisions(
    trials: "Sequence[TaskTrial]", store: "Store", search_settings: dict[str, Any], *, quiet: bool
) -> Iterator[dict[str, Any]]:
    """What was found for each member, kept in a file of its own as soon as it is known."""
    from headcount.errors import HeadcountError
    from headcount.theory.collisions.collide import collide as search

    for trial, error in best_members(trials, store):
        shape, settings = trial.architecture, {"trial": trial.id, **search_settings}
        name = f"T{trial.length}-h{shape.heads}" + (f"-L{shape.layers}" if shape.layers > 1 else "")
        path = store.folder / FOLDER / f"{name}.json"
        if known := _read(path, settings):
            yield known
            continue
        if not quiet:
            print(f"T = {trial.length}, h = {shape.heads}: searching", file=sys.stderr)
        model = store.model(trial)
        if model is None:
            raise HeadcountError(f"{store.models}: the model of {trial.id} cannot be read")
        found = search(model, trial.task.build(), length=trial.length, **search_settings)
        row = {"settings": settings, "test_error": error, **_reached(shape), **found.to_json()}
        _write(path, row)
        yield row


def _reached(shape: "Architecture") -> dict[str, int]:
    """The D that weights of a shape with several layers exist for; with one layer it is the heads."""
    if shape.layers == 1:
        return {}
    from headcount.theory.capacity import capacity

    found = capacity(
        layers=shape.layers,
        heads=shape.heads,
        head_dim=shape.head_dim,
        reading=shape.class_reads,
        width=shape.width,
    )
    return {"capacity": found.constructed}


def _write(path: Path, row: dict[str, Any]) -> None:
    from headcount.results.files import write_whole

    content = json.dumps(row, allow_nan=False).encode()
    write_whole(path, lambda file: file.write(content))


def _without_sequences(row: dict[str, Any]) -> dict[str, Any]:
    """A row for reading: the sequences are in its file."""
    return {
        name: _without_sequences(value) if isinstance(value, dict) else value
        for name, value in row.items()
        if name not in ("first", "second")
    }


def _read(path: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """What was found before with these settings; empty if nothing was, or if it cannot be read."""
    try:
        known: dict[str, Any] = json.loads(path.read_bytes())
        return known if known["settings"] == settings else {}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _heads(row: dict[str, Any], dimension: int) -> str:
    """The heads of a member, and how they stand to D."""
    if "capacity" in row:
        return f"{row['heads']}: {row['capacity']}"
    return f"{row['heads']} = D" if row["heads"] == dimension else str(row["heads"])


def _show(found: Sequence[dict[str, Any]], *, dimension: int) -> None:
    from headcount.commands.tables import show_lines, show_table
    from headcount.results.numbers import scientific

    deep = any("capacity" in row for row in found)
    show_lines(["Largest difference of targets, in standard deviations, at one representation:"])
    show_table(
        (
            "T",
            "h: D <=" if deep else "heads",
            "test NMSE",
            "gap like the data",
            "typical",
            "anywhere",
            "Lipschitz",
        ),
        [
            (
                str(row["length"]),
                _heads(row, dimension),
                scientific(row["test_error"]),
                f"{row['inside']['target_gap']:.2g}",
                f"{row['inside']['typical_gap']:.2g}",
                f"{row['anywhere']['target_gap']:.2g}",
                scientific(row["inside"]["lipschitz_at_least"]),
            )
            for row in found
        ],
    )
    if deep:
        show_lines([f"h: D <= is heads and the largest D that weights exist for; here D = {dimension}."])
