"""`headcount reproduce`: a table or figure of the paper, run again and put beside the paper's numbers."""

import json
import shlex
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.commands.options import AsJson, Out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headcount.report.map_panel import MapPanel
    from headcount.report.panel import Panel
    from headcount.reproduce.claims import Verdict
    from headcount.reproduce.item import Item
    from headcount.reproduce.recipe import Recipe
    from headcount.results.store import Store

QUICKLY = (
    "A quick run: fewer steps, seeds and lengths. It shows where the error falls; its numbers are not to "
    "be held against the paper's."
)

PAGE_ONLY = ("validation",)  # a terminal has no room for them


def reproduce(
    name: Annotated[str, typer.Argument(help="An item of --list, or all.", show_default=False)] = "",
    list_items: Annotated[bool, typer.Option("--list", help="Show what can be reproduced.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with the data of cifar10 or msmarco, or hub.", show_default=False),
    ] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            help="msmarco: folder with vocab.txt and bert_embeddings.npz.", show_default="that of --data"
        ),
    ] = None,
    negatives: Annotated[
        str | None, typer.Option(help="msmarco: hard negatives by bm25, dense, or both.", show_default="bm25")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small enough for two cores: minutes.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Seeds of every cell; half of them in some variants.",
            min=1,
            show_default="8; 4 of maps; 3 or 2 on real data",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    out: Out = Path("reproduced"),
    as_json: AsJson = False,
) -> None:
    """Run a table or figure of the paper again, side by side with its numbers.

    Trains what the folder does not hold yet, chooses the learning rate of every
    cell on validation data and reports errors on fresh test data, beside the
    paper's numbers, with a verdict on every claim. Maps of shapes (depth, kv_heads,
    causal, sparse) judge a cell by its lowest test error, over all seeds and both
    learning rates. On real data, which is yours to bring (cifar10, msmarco), there
    is one learning rate, and training and validation errors are reported. Without
    --quick it wants a GPU.
    """
    from headcount.commands.training import train_in_view
    from headcount.reproduce.item import MAPS, REAL_ITEMS
    from headcount.reproduce.recipe import FULL, QUICK
    from headcount.results.store import Store

    if list_items:
        _list(as_json=as_json)
        return
    real = {"data": data, "tables": tables, "negatives": negatives}
    given = {option: str(value) for option, value in real.items() if value is not None}
    items = _chosen(name, given, quick=quick)
    if name in REAL_ITEMS:
        seeds = seeds or (2 if quick else REAL_ITEMS[name].seeds)
    if name in MAPS:
        seeds = seeds or (2 if quick else MAPS[name].seeds)
    recipe = (QUICK if quick else FULL).with_seeds(seeds, first=seed)
    command = (
        f"headcount reproduce {name} "
        + ("--quick " if quick else "")
        + "".join(f"--{option} {shlex.quote(value)} " for option, value in given.items())
        + f"--seeds {recipe.seeds} --seed {seed} --out {shlex.quote(str(out))}"
    )
    store = Store(out)
    for kept in (True, False):
        group = [item for item in items if item.keeps_models(recipe) == kept]
        trials = list(dict.fromkeys(trial for item in group for trial in item.trials(recipe)))
        if trials:
            train_in_view(trials, store, command=command, quiet=as_json, keep_models=kept)
    notes = [QUICKLY] if quick else []
    summaries = [
        _conclude(item, recipe, store, command=command, notes=notes, quiet=as_json) for item in items
    ]
    if as_json:
        print(json.dumps(summaries if name == "all" else summaries[0], indent=2, allow_nan=False))


def _chosen(name: str, given: dict[str, str], *, quick: bool) -> "list[Item]":
    """The items by this name, with the data that was given to one of them."""
    from headcount.errors import InvalidInput
    from headcount.reproduce.item import ITEMS, MAPS, REAL_ITEMS
    from headcount.validation import expected

    if not name:
        raise InvalidInput("NAME: expected an item of `headcount reproduce --list`, or all; got none")
    if name not in (*ITEMS, *MAPS, *REAL_ITEMS, "all"):
        raise expected("item", f"one of {', '.join((*ITEMS, *MAPS, *REAL_ITEMS, 'all'))}", name)
    if name in REAL_ITEMS:
        options = dict(given)
        return [REAL_ITEMS[name].at(options.pop("data", None), quick=quick, **options)]
    for option, value in given.items():
        raise InvalidInput(
            f"--{option}: expected only with {' or '.join(REAL_ITEMS)}, got {value!r} with {name}"
        )
    return list(ITEMS.values()) if name == "all" else [(MAPS if name in MAPS else ITEMS)[name]]


def _list(*, as_json: bool) -> None:
    from headcount.reproduce.item import ITEMS, MAPS, REAL_ITEMS

    if as_json:
        items = (*ITEMS.values(), *MAPS.values(), *REAL_ITEMS.values())
        print(json.dumps({item.name: item.title for item in items}, indent=2))
        return
    for item in ITEMS.values():
        print(f"{item.name:<12} {item.title}")
    for item in MAPS.values():
        print(f"{item.name:<12} {item.title} (not part of all)")
    for item in REAL_ITEMS.values():
        print(f"{item.name:<12} {item.title} (needs --data, and is not part of all)")


def _conclude(
    item: "Item", recipe: "Recipe", store: "Store", *, command: str, notes: list[str], quiet: bool
) -> dict[str, Any]:
    """Judge, and write page, picture and frame."""
    from headcount.report.panel_chart import panels_chart
    from headcount.report.rendering import save_chart
    from headcount.reproduce.page import write_reproduction
    from headcount.results.files import write_whole

    frame = item.rows(store.frame(), recipe)
    members = frame.drop_duplicates("trial")
    notes = [note for note in (item.conditions(recipe), *notes) if note]
    panels = item.panels(frame)
    verdicts = [*item.judge(frame), *item.look_closer(store, recipe)]
    page = store.folder / "reproduced" / f"{item.name}.html"
    write_reproduction(item, panels, verdicts, members, page, command=command, notes=notes)
    save_chart(panels_chart(panels), page.with_suffix(".svg"))
    write_whole(page.with_suffix(".parquet"), lambda file: frame.to_parquet(file, index=False))
    if not quiet:
        _show(item, panels, verdicts, len(members))
        for note in notes:
            print(fill(note, 80))
        print(f"Page: {page}\n")
    return {
        "item": item.name,
        "members": len(members),
        "failed": int((members["status"] == "diverged").sum()),
        "verdicts": [{**vars(verdict), "word": verdict.word} for verdict in verdicts],
        "panels": {panel.title: json.loads(panel.table.to_json(orient="records")) for panel in panels},
        "page": str(page),
    }


def _show(
    item: "Item", panels: "Sequence[Panel | MapPanel]", verdicts: "list[Verdict]", members: int
) -> None:
    from rich.text import Text

    from headcount.commands.tables import show_lines, show_table, terminal
    from headcount.report.panel import Panel
    from headcount.reproduce.page import columns, written

    show_lines([item.title], style="bold")
    show_lines([f"{item.about} {members} members."])
    for panel in panels:
        hidden = PAGE_ONLY if isinstance(panel, Panel) else panel.page_only
        shown = [place for place, name in enumerate(columns(panel)) if name not in hidden]
        rows = [[row[place] for place in shown] for row in written(panel)]
        show_table([columns(panel)[place] for place in shown], rows, title=panel.title)
    colours = {True: "green", False: "red", None: "yellow"}
    for verdict in verdicts:
        line = Text(verdict.word, style=colours[verdict.holds])
        terminal().print(line.append(f": {verdict.claim}. {verdict.evidence}", style="default"))
