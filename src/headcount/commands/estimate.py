"""`headcount estimate`: how many heads does a user's own task need?"""

import json
import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.commands.options import AsJson, Out
from headcount.errors import InvalidInput
from headcount.validation import shown as short

if TYPE_CHECKING:
    from headcount.estimate.study import Study
    from headcount.estimate.verdict import Estimate

ESTIMATE = "estimate.json"  # in the folder: the answer, beside the members that it rests on


def estimate(
    data: Annotated[Path, typer.Argument(help="An .npz or .parquet file with x and y.", show_default=False)],
    out: Out = Path("estimate"),
    target: Annotated[str, typer.Option(help="What y is: numbers, labels, or auto to find out.")] = "auto",
    positions: Annotated[
        bool, typer.Option("--positions/--no-positions", help="Let members see the position of a token.")
    ] = True,
    max_heads: Annotated[int, typer.Option(help="The largest number of heads to try.", min=3, max=32)] = 8,
    seed: Annotated[int, typer.Option(help="Seed of the splits and of the members.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """How many heads does my task need? A number, an interval and a page.

    DATA holds `x`, the tokens [samples, length, token_dim] or integer tokens
    [samples, length], and `y`, a number, several or a label for each sequence;
    if lengths differ, also a `mask` that is true where there is a token. Small
    transformers with 1 to --max-heads heads learn it. Where fewer heads stop
    agreeing with many, the task retrieves more things than they can.
    """
    from headcount.commands.training import train_in_view
    from headcount.data.files import load
    from headcount.estimate.evidence import estimate_of
    from headcount.estimate.study import Study
    from headcount.results.files import check_writable, write_whole

    began = time.perf_counter()
    samples = load(data, target=target)  # type: ignore[arg-type]  # `load` refuses an unknown one
    command = (
        f"headcount estimate {shlex.quote(str(data))} --out {shlex.quote(str(out))} --target {target} "
        f"--{'' if positions else 'no-'}positions --max-heads {max_heads} --seed {seed}"
    )
    study = Study.of(samples, out, max_heads=max_heads, positions=positions, seed=seed)
    check_writable("--out", out)
    _check_same_data(study)
    study.check()
    early_shown = False
    for stage in study.stages():
        if study.has_quick_sweep and not early_shown:
            early_shown = True
            _say(f"First guess: {study.early_estimate().sentence}", quiet=as_json)
        _say(stage.name, quiet=as_json)
        train_in_view(stage.trials, study.store, command=command, quiet=as_json, keep_models=True)
    found = replace(estimate_of(study), seconds=time.perf_counter() - began)
    shown = with_options(found)
    _write_page(study, shown, command=command)
    content = {**found.to_json(), "data": {"name": samples.name, "fingerprint": samples.fingerprint}}
    written = json.dumps(content, indent=2, allow_nan=False)
    write_whole(study.store.folder / ESTIMATE, lambda file: file.write(written.encode()))
    if as_json:
        print(written)
        return
    _show(shown)
    print(f"Page: {study.store.page}")


def with_options(found: "Estimate") -> "Estimate":
    """The estimate with parameters in its reasons worded as options of this command."""
    from headcount.estimate.verdict import PARAMETER

    return replace(found, reasons=tuple(each.replace(PARAMETER, "--max-heads ") for each in found.reasons))


def _check_same_data(study: "Study") -> None:
    """One folder is for one data set: do not overwrite the estimate of another."""
    try:
        before = json.loads((study.store.folder / ESTIMATE).read_bytes())["data"]
        name, fingerprint = before["name"], before["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):  # none, or one that cannot be read
        return
    if fingerprint != study.data.fingerprint:
        raise InvalidInput(
            f"--out: {study.store.folder} holds the estimate of other data ({short(name)}); "
            "use another folder"
        )


def _say(line: str, *, quiet: bool) -> None:
    if not quiet:
        print(line, file=sys.stderr, flush=True)


def _write_page(study: "Study", found: "Estimate", *, command: str) -> None:
    from headcount.estimate.evidence import attention, salience_of
    from headcount.estimate.salience import SALIENT
    from headcount.report.estimation import Pictures, write_estimate

    member, weights = attention(study, found.recommended_heads)
    pictures = Pictures(salience_of(study).counts(SALIENT), weights)
    early, frame, page = study.early_estimate(), study.frame(), study.store.page
    write_estimate(found, early, study.data, member, pictures, frame, page, command=command)


def _show(found: "Estimate") -> None:
    from headcount.commands.tables import show_lines, show_table
    from headcount.report.theme import scientific
    from headcount.theory.plan import LAYERS, MEASURED, heads_table

    show_lines([found.sentence], style="bold")
    show_lines(reason[:1].upper() + reason[1:] for reason in found.reasons if reason not in found.sentence)
    heads = [error.heads for error in found.errors]
    chances = [found.probabilities.get(h) for h in heads]
    rows = [
        (str(h), scientific(error.value), scientific(distance.value), "–" if p is None else f"{p:.0%}")
        for h, error, distance, p in zip(heads, found.errors, found.distances, chances, strict=True)
    ]
    bold = [place for place, h in enumerate(heads) if h == found.dimension]
    show_table(("h", "test error", "distance", "probability of D = h"), rows, bold=bold)
    if found.dimension is None or found.dimension == 1:
        return
    deeper, marks = heads_table(found.evidence["shapes"])
    print()
    show_lines([MEASURED])
    show_table(("layers", *map(str, LAYERS)), deeper, texts=("layers",))
    show_lines([marks] if marks else [])
