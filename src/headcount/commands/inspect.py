"""`headcount inspect`: how many heads does a trained model need, and which can go?"""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.commands.options import AsJson
from headcount.extras import needed

if TYPE_CHECKING:
    from headcount.trained.inspection import Inspection

MODEL = "A folder that transformers saved, or FILE.py:function, which returns a torch.nn.Module."
DATA = "An .npz of inputs, a .jsonl of texts, or FILE.py:function, which returns batches."


def inspect(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL, show_default=False)],
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA, show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("inspect"),
    tolerance: Annotated[
        float | None,
        typer.Option(help="By how much the mean loss may rise.", show_default="by the distance"),
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="FILE.py:function of outputs and batch.", show_default=False)
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help="The same, where higher is better.", show_default=False)
    ] = None,
    distance: Annotated[
        str | None,
        typer.Option(
            help="From the whole model: KL divergence, cosine distance, …", show_default="by outputs"
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where the model runs, such as cuda.", show_default="cuda if there")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the split of the samples.", min=0)] = 0,
    baselines: Annotated[
        bool, typer.Option("--baselines", help="Also choose as many heads by random, size, gradient, ….")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """How many heads does a trained model need, and which can go?

    Removes heads of a copy, refits what is left to what the whole model writes,
    and goes on as long as the loss on held-out samples stays within --tolerance.
    Without --loss or --metric, that is the distance from the whole model's own
    outputs, and DATA needs no labels. Writes inspect.json and an editable plan.json.
    """
    needed("torch", extra="torch", purpose="inspecting a trained model")
    from headcount.results.files import check_writable
    from headcount.trained.inspection import inspect as inspected
    from headcount.trained.source import load_batches, load_model, on_device, own_function

    check_writable("--out", out)
    own = {
        name: None if each is None else own_function(f"--{name}", each)
        for name, each in (("loss", loss), ("metric", metric))
    }
    network = on_device(load_model(model), device)
    kind = next((each.dtype for each in network.parameters() if each.is_floating_point()), None)
    batches = load_batches(data, model=model, kind=kind)
    found = inspected(
        network,
        batches,
        own["loss"],
        own["metric"],
        tolerance=tolerance,
        distance=distance,
        seed=seed,
        baselines=baselines,
        progress=None if as_json else _say,
    )
    found.save(out)
    if as_json:
        print(json.dumps(found.to_json(), indent=2, allow_nan=False))
        return
    _show(found)
    print(f"Plan: {out / 'plan.json'}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(found: "Inspection") -> None:
    from headcount.commands.tables import show_lines, show_table

    show_lines([found.sentence], style="bold")
    rows = [
        (
            str(place),
            f"{layer.needed if layer.needed is not None else '?'} of {layer.shape.heads}",
            f"{layer.interval[0]} to {layer.interval[1]}",
            f"{layer.rise.mean:.2g}",
            str(layer.uniform),
            str(layer.free),
        )
        for place, layer in enumerate(found.layers)
    ]
    show_table(("layer", "needs alone", "95%", "rise", "uniform plan", "free plan"), rows)
    solutions: dict[str, Any] = {"uniform": found.plan.uniform, "free": found.plan.free}
    show_lines(
        f"The {name} plan keeps {each.heads} of {found.plan.heads} heads; {found.plan.measure} rises by "
        f"{each.reported} on samples that decided nothing."
        for name, each in solutions.items()
    )
