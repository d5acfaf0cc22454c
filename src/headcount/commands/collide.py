"""`headcount collide`: train members, find sequences that they cannot distinguish, and draw them."""

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.commands.options import AsJson, Out

if TYPE_CHECKING:
    from headcount.results.store import Store
    from headcount.trials.trial import TaskTrial

DEFAULTS = {"dimension": 4, "token_dim": 4}
LEARNING_RATES = (3e-3, 1e-2)
FOLDER = "collisions"  # in the results folder: what was found, with its sequences


def collide(
    task: Annotated[str, typer.Argument(help="The name of a task, such as max_sum or bowls.")] = "max_sum",
    dimension: Annotated[int | None, typer.Option(help="D.", min=1, show_default="4")] = None,
    token_dim: Annotated[int | None, typer.Option(help="d.", min=1, show_default="4")] = None,
    length: Annotated[list[int], typer.Option(help="T; give it again for more.", min=2)] = [16, 64],  # noqa: B006
    max_heads: Annotated[
        int | None, typer.Option(help="Heads from 1 to this.", min=1, show_default="D + 2")
    ] = None,
    steps: Annotated[int, typer.Option(help="Training steps of each member.", min=100)] = 20_000,
    train_samples: Annotated[int, typer.Option(help="Sequences to train on.", min=1)] = 50_000,
    seeds: Annotated[
        int, typer.Option(help="Members of each rate; the best on validation data is taken.", min=1)
    ] = 2,
    pairs: Annotated[int, typer.Option(help="Pairs of sequences to refine.", min=2, max=2048)] = 64,
    candidates: Annotated[int, typer.Option(help="Candidates to bin.", min=2, max=10_000_000)] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    out: Out = Path("collisions"),
    as_json: AsJson = False,
) -> None:
    """Find two sequences that a trained model cannot distinguish, though their targets differ.

    Trains members with 1 to D + 2 heads, takes the best of each, and searches for
    pairs with one representation and different targets: easy below D heads, and
    from D on rare where a member was well trained. Ends with a table and a page.
    """
    from headcount.commands.training import train_in_view
    from headcount.errors import HeadcountError
    from headcount.report.collisions_chart import collisions_chart
    from headcount.report.rendering import save_chart
    from headcount.results.store import Store
    from headcount.tasks.registry import with_defaults
    from headcount.trials.grid import Grid
    from headcount.trials.task_choice import TaskChoice
    from headcount.trials.training import Training

    choice = TaskChoice.of(task, **with_defaults(task, DEFAULTS, dimension=dimension, token_dim=token_dim))
    built = choice.build()
    grid = Grid(
        choice,
        length=tuple(dict.fromkeys(length)),
        heads=tuple(range(1, (max_heads or built.dimension + 2) + 1)),
        seed=tuple(range(seed, seed + seeds)),
        learning_rate=LEARNING_RATES,
        training=Training(steps=steps - steps % 100, train_samples=train_samples),
    )
    trials = list(grid.trials())
    options: dict[str, Any] = {"dimension": dimension, "token-dim": token_dim, "length": grid.length}
    options |= {"max-heads": max_heads, "steps": steps, "train-samples": train_samples, "seeds": seeds}
    options |= {"pairs": pairs, "candidates": candidates, "seed": seed, "out": out}
    command = _command(task, options)
    store = Store(out)
    train_in_view(trials, store, command=command, quiet=as_json, keep_models=True)
    found = list(_collisions(trials, store, pairs=pairs, candidates=candidates, seed=seed, quiet=as_json))
    missing = sorted(
        {(trial.length, trial.architecture.heads) for trial in trials}
        - {(row["length"], row["heads"]) for row in found}
    )
    if not found:
        raise HeadcountError(f"every member diverged: a longer warm-up or more steps than {steps} may help")
    title = f"{task}, D = {built.dimension}, d = {built.token_dim}"
    page = store.folder / "collisions.html"
    save_chart(collisions_chart(found, dimension=built.dimension, title=title), page)
    if as_json:
        pages = {"page": str(page), "sequences": str(store.folder / FOLDER)}
        print(json.dumps({**_summary(found, missing, command), **pages}, indent=2, allow_nan=False))
        return
    _show(found, dimension=built.dimension)
    for cell_length, heads in missing:
        print(f"T = {cell_length}, h = {heads}: every member diverged, nothing to search")
    print(f"Page: {page}")


def _command(task: str, options: dict[str, Any]) -> str:
    """The line that does it again; an option that was not given is left out."""
    words = ["headcount", "collide", task]
    for name, value in options.items():
        values = value if isinstance(value, tuple) else (value,)
        words += [word for each in values if each is not None for word in (f"--{name}", str(each))]
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
    trials: "Sequence[TaskTrial]", store: "Store", *, pairs: int, candidates: int, seed: int, quiet: bool
) -> Iterator[dict[str, Any]]:
    """What was found for each member, kept in a file of its own as soon as it is known."""
    from headcount.errors import HeadcountError
    from headcount.theory.collisions.collide import collide as search

    for trial, error in best_members(trials, store):
        settings = {"trial": trial.id, "pairs": pairs, "candidates": candidates, "seed": seed}
        path = store.folder / FOLDER / f"T{trial.length}-h{trial.architecture.heads}.json"
        if known := _read(path, settings):
            yield known
            continue
        if not quiet:
            print(f"T = {trial.length}, h = {trial.architecture.heads}: searching", file=sys.stderr)
        model = store.model(trial)
        if model is None:
            raise HeadcountError(f"{store.models}: the model of {trial.id} cannot be read")
        found = search(
            model, trial.task.build(), length=trial.length, pairs=pairs, candidates=candidates, seed=seed
        )
        row = {"settings": settings, "test_error": error, **found.to_json()}
        _write(path, row)
        yield row


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


def _show(found: Sequence[dict[str, Any]], *, dimension: int) -> None:
    from headcount.commands.tables import show_lines, show_table

    show_lines(["Largest difference of targets, in standard deviations, at one representation:"])
    show_table(
        ("T", "heads", "test NMSE", "gap like the data", "typical", "anywhere", "Lipschitz needed"),
        [
            (
                str(row["length"]),
                f"{row['heads']} = D" if row["heads"] == dimension else str(row["heads"]),
                f"{row['test_error']:.1e}",
                f"{row['inside']['target_gap']:.2g}",
                f"{row['inside']['typical_gap']:.2g}",
                f"{row['anywhere']['target_gap']:.2g}",
                f"{row['inside']['lipschitz_at_least']:.1e}",
            )
            for row in found
        ],
    )
