"""`headcount shrink`: the smaller model that a plan of `headcount inspect` describes, for others to load."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.commands.options import AsJson
from headcount.extras import needed

if TYPE_CHECKING:
    from headcount.trained.export.writing import Exported


def shrink(
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN", help="The plan.json of `headcount inspect`, or its folder.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("small"),
    kind: Annotated[
        str | None,
        typer.Option(
            "--as", help="stock, code or export.", show_default="the first of them that can hold the plan"
        ),
    ] = None,
    solution: Annotated[
        str | None,
        typer.Option(help="uniform, free or grouped.", show_default="uniform for stock, free for the others"),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="The model, as for inspect.", show_default="as the plan says")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="Samples to refit with, as for inspect, after an edit.", show_default=False),
    ] = None,
    refit: Annotated[
        bool, typer.Option("--refit/--no-refit", help="Whether what is left makes up for what is gone.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Write the smaller model of a plan into a folder that loads without headcount.

    --as stock: a folder that transformers loads as it is. Its config holds one
    number of heads for all layers, so this is the uniform solution.

    --as code: the same with a few lines of Python beside the weights, for any
    number in each layer; it is loaded with trust_remote_code=True.

    --as export: a program that torch alone runs, of any model.

    --solution grouped: all heads, with the fewer key-value heads that the plan
    names after `headcount inspect --kv-heads`.

    What was written is read back and compared before it gets its name. Edit `kept`
    in plan.json to choose other heads; these are then refitted to --data.
    """
    needed("torch", extra="torch", purpose="shrinking a trained model")
    from headcount.trained.shrinking import shrink as shrunk

    found = shrunk(plan, out, model=model, data=data, refit=refit, kind=kind, solution=solution)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))
        return
    _show(found)


def _show(found: "Exported") -> None:
    from headcount.commands.tables import show_lines

    heads, parameters = (f"{left:,} of {whole:,}" for whole, left in (found.heads, found.parameters))
    show_lines([found.title], style="bold")
    show_lines([f"{heads} heads ({found.solution}), {parameters} parameters."])
    print()
    for line in found.lines.splitlines():  # whole, to be copied
        print(f"    {line}" if line else "")
    print()
    show_lines([*found.loading.says, *found.notes])
    print(f"Model: {found.folder}")
