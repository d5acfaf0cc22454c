"""`headcount estimate`: how many heads does a user's own task need?"""

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from headcount.commands.options import AsJson, Out, worded_as_options
from headcount.errors import InvalidInput

if TYPE_CHECKING:
    from headcount.data.arrays import DataSet
    from headcount.estimate.verdict import Estimate

MAX_D_MODEL = 1_000_000


def _option(text: str, *names: str) -> Any:
    """An option about the data."""
    return typer.Option(*names, help=text, show_default=False, rich_help_panel="How DATA is read")


Data = Annotated[
    Path | None,
    typer.Argument(help="A .csv, .parquet, .npz, .npy, .jsonl or .pt file.", show_default=False),
]
Y = Annotated[
    str | None, _option("Name of y: a column, an .npy file or an array, [samples] or [samples, outputs].")
]
Id = Annotated[str | None, _option("Table: the column that tells sequences apart; a row is a token.", "--id")]
Time = Annotated[str | None, _option("Table: the column that orders the tokens of a sequence.")]
Features = Annotated[
    str | None, _option("Table: columns a,b or first:last with the numbers; without --id, one token each.")
]
X = Annotated[
    str | None,
    _option(
        "Name of x: an .npy file or an array, numbers [samples, length, token_dim] or [samples, length], "
        "or ids [samples, length]."
    ),
]
Mask = Annotated[str | None, _option("Name of the mask [samples, length], true where there is a token.")]
Target = Annotated[Literal["auto", "numbers", "labels"], _option("What y holds; auto finds out.")]
Tokens = Annotated[Literal["auto", "numbers", "ids"], _option("What x holds; auto finds out.")]
Padding = Annotated[str | None, _option("The number, or nan, that only fills up shorter sequences.")]
DModel = Annotated[
    int | None,
    typer.Option(
        help="Width of your own model: adds the next num_heads that divides it.",
        min=1,
        max=MAX_D_MODEL,
        show_default=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="A quarter of the steps; the answer says so.")]
Minutes = Annotated[
    float | None,
    typer.Option(help="Answer within so many minutes, from what fits into them.", show_default=False),
]


def estimate(
    data: Data = None,
    y: Y = None,
    id_: Id = None,
    time: Time = None,
    features: Features = None,
    x: X = None,
    mask: Mask = None,
    target: Target = "auto",
    tokens: Tokens = "auto",
    padding: Padding = None,
    out: Out = Path("estimate"),
    positions: Annotated[
        bool, typer.Option("--positions/--no-positions", help="Let members see the position of a token.")
    ] = True,
    max_heads: Annotated[int, typer.Option(help="The largest number of heads to try.", min=3, max=32)] = 8,
    d_model: DModel = None,
    quick: Quick = False,
    minutes: Minutes = None,
    seed: Annotated[int, typer.Option(help="Seed of the splits and of the members.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """How many heads does my task need? A number, an interval and a page.

    DATA holds x, the tokens of each sequence (numbers, or ids as integers), and
    y, a number, several or a label for each sequence; if lengths differ, also a
    mask. How it was read is shown before anything trains. Small transformers
    with 1 to --max-heads heads learn it. Where fewer heads stop agreeing with
    many, the task retrieves more things than they can.
    """
    from headcount.data.files import load
    from headcount.data.long_form import Columns

    given = {"x": x, "y": y, "mask": mask, "id": id_, "time": time, "features": features, "padding": padding}
    given |= {} if tokens == "auto" else {"tokens": tokens}
    try:
        samples = load(
            data,
            x=x,
            y=y,
            mask=mask,
            columns=Columns(id_, time, features),
            target=target,
            tokens=tokens,
            padding=padding,
        )
    except InvalidInput as problem:
        raise InvalidInput(worded_as_options(str(problem))) from None
    estimate_samples(
        samples,
        out,
        positions=positions,
        max_heads=max_heads,
        d_model=d_model,
        quick=quick,
        minutes=minutes,
        seed=seed,
        as_json=as_json,
        command=(
            f"headcount estimate {_source(data, given)} --out {shlex.quote(str(out))} --target {target} "
            f"--{'' if positions else 'no-'}positions --max-heads {max_heads} --seed {seed}"
            f"{'' if d_model is None else f' --d-model {d_model}'}{' --quick' * quick}"
        ),
    )


def _source(data: Path | None, given: dict[str, str | None]) -> str:
    """The arguments that say where the data is and what it is."""
    named = [f"--{name} {shlex.quote(value)}" for name, value in given.items() if value is not None]
    return " ".join([*([] if data is None else [shlex.quote(str(data))]), *named])


def estimate_samples(
    samples: "DataSet",
    out: Path,
    *,
    positions: bool = True,
    max_heads: int = 8,
    d_model: int | None = None,
    quick: bool = False,
    minutes: float | None = None,
    seed: int,
    as_json: bool,
    command: str,
) -> None:
    """The estimate of a data set, into a folder; `command` repeats it."""
    from headcount.api.answer import Answer, check_same_data
    from headcount.commands.answer import show_answer
    from headcount.commands.stages import train_in_stages
    from headcount.engine.lanes import compile_seconds
    from headcount.estimate.countdown import check_minutes
    from headcount.estimate.evidence import estimate_of
    from headcount.estimate.study import Study
    from headcount.results.files import check_writable

    began, compiled = perf_counter(), compile_seconds()
    minutes = check_minutes("--minutes", minutes)
    samples = _worded(samples)
    study = Study.of(samples, out, max_heads=max_heads, positions=positions, seed=seed, quick=quick)
    check_writable("--out", out)
    check_same_data("--out", study)
    study.check()
    _say_how_read(samples, quiet=as_json)
    train_in_stages(study, minutes=minutes, command=command, quiet=as_json)
    found = with_options(estimate_of(study, d_model=d_model, minutes=minutes))
    found = replace(found, seconds=perf_counter() - began, compile_seconds=compile_seconds() - compiled)
    answer = Answer.of(study, found, command=command)
    answer.write(study)
    if as_json:
        print(answer.text)
        return
    show_answer(answer.found)
    if answer.page is not None:
        print(f"Page: {study.store.page}")


def with_options(found: "Estimate") -> "Estimate":
    """The estimate with parameters in its reasons worded as options of this command."""
    from headcount.estimate.verdict import PARAMETER

    return replace(found, reasons=tuple(each.replace(PARAMETER, "--max-heads ") for each in found.reasons))


def _worded(samples: "DataSet") -> "DataSet":
    """The same data; how it was read names options of this command."""
    doubts = tuple(worded_as_options(doubt) for doubt in samples.doubts)
    return replace(samples, summary=worded_as_options(samples.summary), doubts=doubts)


def _say_how_read(samples: "DataSet", *, quiet: bool) -> None:
    """What the data was taken for; doubts are also shown where the result alone is printed."""
    _say(f"{samples.name}: {samples.summary}", quiet=quiet)
    for doubt in samples.doubts:
        _say(f"headcount: warning: {doubt}", quiet=False)


def _say(line: str, *, quiet: bool) -> None:
    if not quiet:
        print(line, file=sys.stderr, flush=True)
