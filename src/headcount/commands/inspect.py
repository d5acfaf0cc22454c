"""`headcount inspect`: how many heads does a trained model need, and which can go?"""

import json
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headcount.commands.options import AsJson
from headcount.errors import InvalidInput
from headcount.extras import needed

if TYPE_CHECKING:
    from headcount.trained.inspection import Inspection
    from headcount.trained.kv_counts import KvCounts

MODEL = "A folder that transformers saved, or FILE.py:function, which returns a torch.nn.Module."
NAMED = ("tolerance", "distance", "kv_heads", "distil", "timing", "seed")  # parameters that are options too
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
        str | None,
        typer.Option(help="FILE.py:function of outputs and batch: a number per sample.", show_default=False),
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
    kv_heads: Annotated[
        list[int] | None,
        typer.Option(help="Key-value heads a layer to try; may be given again.", show_default=False),
    ] = None,
    timing: Annotated[
        float | None,
        typer.Option(
            help="Seconds to time the smaller model in, beside the whole one; 0: do not.", show_default="10"
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where the model runs, such as cuda.", show_default="cuda if there")
    ] = None,
    distil: Annotated[
        float | None,
        typer.Option(
            help="Train each plan towards the whole model for so many seconds.",
            metavar="SECONDS",
            show_default=False,
        ),
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
    outputs, and DATA needs no labels. Its tolerance is 0.05 for a KL divergence and
    0.02 for a cosine or squared distance; that of a loss or metric must be given.
    DATA holds 40 samples at least. Writes report.html, inspect.json and an editable
    plan.json; with --distil also the weights of each plan after a short training.
    """
    needed("torch", extra="torch", purpose="inspecting a trained model")
    from headcount.commands.bars import DistilProgress
    from headcount.results.files import check_writable
    from headcount.trained.inspecting import inspect as inspected
    from headcount.trained.inspection import PLAN, REPORT
    from headcount.trained.source import load_batches, load_model, on_device, own_function

    check_writable("--out", out)
    if (out / "config.json").exists():
        raise InvalidInput(f"--out: expected a folder for results, got that of a model, {out}")
    own = {
        name: None if each is None else own_function(f"--{name}", each)
        for name, each in (("loss", loss), ("metric", metric))
    }
    network = on_device(load_model(model), device)
    kind = next((each.dtype for each in network.parameters() if each.is_floating_point()), None)
    batches = load_batches(data, model=model, kind=kind)
    with DistilProgress(shown=not as_json) as bars, names_of_options():
        found = inspected(
            network,
            batches,
            own["loss"],
            own["metric"],
            tolerance=tolerance,
            distance=distance,
            kv_heads=kv_heads or (),
            distil=distil,
            timing=timing,
            seed=seed,
            baselines=baselines,
            progress=None if as_json else _say,
            distilling=bars.note,
        )
    options: dict[str, object] = {
        "out": out,
        "tolerance": tolerance,
        "loss": loss,
        "metric": metric,
        "distance": distance,
    }
    options |= {"kv-heads": kv_heads, "distil": distil, "device": device, "seed": seed or None}
    options |= {"timing": timing, "baselines": baselines or None}
    found = replace(found, plan=replace(found.plan, source=model))
    found = replace(found, command=_command(model, data, options))
    found.save(out)
    page = found.report(out / REPORT)
    if as_json:
        print(json.dumps(found.to_json(), indent=2, allow_nan=False))
        return
    _show(found)
    print(f"Plan: {out / PLAN}")
    print(f"Page: {page}")


@contextmanager
def names_of_options() -> Iterator[None]:
    """Errors that begin with the name of a parameter begin with that of its option."""
    try:
        yield
    except InvalidInput as problem:
        name, colon, rest = str(problem).partition(":")
        raise InvalidInput(
            f"--{name.replace('_', '-')}{colon}{rest}" if name in NAMED else str(problem)
        ) from None


def _command(model: str, data: str, options: Mapping[str, object]) -> str:
    """What repeats the inspection."""
    given = [
        f"--{name}" if each is True else f"--{name} {shlex.quote(str(each))}"
        for name, value in options.items()
        if value is not None
        for each in (value if isinstance(value, list) else [value])
    ]
    return " ".join(["headcount inspect", shlex.quote(model), shlex.quote(data), *given])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _show(found: "Inspection") -> None:
    from headcount.commands.tables import show_lines, show_table
    from headcount.trained.summary import changes_by, worsening

    worse = worsening(found.plan.measure)
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
    show_table(("layer", "needs alone", "95%", worse, "uniform plan", "free plan"), rows)
    solutions: dict[str, Any] = {"uniform": found.plan.uniform, "free": found.plan.free}
    show_lines(
        f"The {name} plan keeps {each.heads} of {found.plan.heads} heads [{low}, {high}]; "
        f"the {changes_by(found.plan.measure)} {each.reported} on samples that decided nothing"
        f"{'' if each.recovered is None else f', after distillation by {each.recovered}'}."
        for name, each in solutions.items()
        for low, high in [found.to_json()[name]["interval"]]
    )
    show_lines(
        [
            "In square brackets: 95% intervals, over samples drawn and heads selected anew. In round ones: "
            "two bounds, each of which holds in 95% of cases."
        ]
    )
    if found.grouped is not None:
        _show_grouped(found.grouped, found.plan.measure)


def _show_grouped(found: "KvCounts", measure: str) -> None:
    from headcount.commands.tables import show_lines, show_table
    from headcount.trained.kv_counts import WAYS
    from headcount.trained.summary import worsening

    names = {"joint": "joint SVD", "procrustes": "Procrustes", "mean": "mean"}
    columns = [f"{names[method]}{' + refit' * refit}" for method, refit in WAYS]
    rows = [
        (str(kv_heads), *(f"{found.of(kv_heads)[way].reported.mean:.3g}" for way in WAYS))
        for kv_heads in found.counts
    ]
    show_table(("value heads" if found.values_only else "key-value heads", *columns), rows)
    show_lines(
        [f"{worsening(measure).capitalize()} of the {measure} on samples that decided nothing.", *found.laws]
    )
    if found.said:
        show_lines([found.said])
    if found.planned is None:
        show_lines(["The plan keeps all key-value heads: none of these counts stays within the tolerance."])
    else:
        what = "values" if found.values_only else "key-value heads"
        show_lines([f"The plan can go down to {found.planned.kv_heads} {what} a layer."])
