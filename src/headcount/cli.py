"""The command line: a thin skin over the library. Mistakes are one line, and exit code 2."""

import json
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from headcount.commands.bounds import bounds
from headcount.commands.bundle import bundle
from headcount.commands.collide import collide
from headcount.commands.construct import construct
from headcount.commands.density import density
from headcount.commands.engines import Address, Engine, EngineName
from headcount.commands.estimate import estimate
from headcount.commands.merge import merge
from headcount.commands.options import AsJson, Out, check_writable
from headcount.commands.rates import rates
from headcount.commands.reproduce import reproduce
from headcount.commands.training import INCOMPLETE, INTERRUPTED
from headcount.errors import HeadcountError, InvalidInput

if TYPE_CHECKING:
    from headcount.engine import Store, Trial

MISTAKE = 2

app = typer.Typer(
    name="headcount",
    help="How many attention heads does this task need? An answer, with evidence.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


@app.callback()
def headcount(context: typer.Context) -> None:
    """How many attention heads does this task need? An answer, with evidence."""
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command(epilog="Example:  headcount demo --out demo")
def demo(
    out: Out = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the data and of the first start.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """How many heads does an example need? The main job, in about a minute.

    Writes samples of y = sum of three maxima, with a little noise, to a file beside OUT, and asks `headcount
    estimate` how many heads they need. Three is right: each maximum wants a head of its own.
    """
    import numpy as np

    from headcount.demo import example_data
    from headcount.engine.files import write_whole

    place = out.resolve()
    if not place.name:
        raise InvalidInput(f"--out = {out}: allowed is a folder with a name")
    example = out.parent / f"{place.name}.npz" if out.name else place.with_name(f"{place.name}.npz")
    check_writable(out)
    write_whole(example, lambda file: np.savez(file, **example_data(seed=seed)))  # type: ignore[arg-type]
    estimate(example, out, seed=seed, as_json=as_json)


@app.command(epilog="Example:  headcount sweep spec.toml --out runs/mine")
def sweep(
    spec: Annotated[Path, typer.Argument(help="A .toml or .py file.", show_default=False)],
    out: Out = Path("runs"),
    seed: Annotated[int, typer.Option(help="Added to every seed of SPEC.", min=0)] = 0,
    engine: EngineName = "local",
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Train a whole grid; run it again to resume.

    SPEC is a TOML file with the tables task, model and training, in which a
    list is an axis of the grid, or a Python file that defines `grid` or
    `trials`. `headcount example` prints one to start from. With --engine ray
    members are trained by the workers of a Ray cluster, on its GPUs or else its
    cores, and the folder is written here alone; either engine goes on with what
    the other one left. See docs/cluster.md.
    """
    from headcount.specfile import load

    chosen = Engine(engine, address)
    trials = [replace(trial, seed=trial.seed + seed) for trial in load(spec)]
    command = f"headcount sweep {shlex.quote(str(spec))} --out {shlex.quote(str(out))} --seed {seed}"
    _run(trials, out, title=spec.name, command=command + chosen.options, as_json=as_json, engine=chosen)


@app.command(epilog="Example:  headcount example > spec.toml")
def example() -> None:
    """Print a SPEC for `headcount sweep` to start from."""
    from headcount.specfile import EXAMPLE

    print(EXAMPLE, end="")


@app.command(epilog="Example:  headcount report runs/mine")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A results folder.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make the page again, from the results alone."""
    from headcount.engine import Store

    store = Store(folder)
    _holds_no_estimate(store)
    _report(
        store,
        title=folder.resolve().name,
        command=f"headcount report {shlex.quote(str(folder))}",
        as_json=as_json,
    )


app.command(epilog="Example:  headcount estimate mine.npz --out estimate")(estimate)
app.command(epilog="Example:  headcount reproduce table2 --quick")(reproduce)
app.command(epilog="Example:  headcount merge runs/laptop runs/node1 runs/node2 --out runs/all")(merge)
app.command(epilog="Example:  headcount bundle wheels --python 3.12")(bundle)

THEORY = "The theory"
BOUNDS = "headcount bounds --dimension 4 --heads 3 --head-dim 8 --length 128"
CONSTRUCT = "headcount construct specialise bowls --dimension 4 --token-dim 2 --length 64"
COLLIDE = "headcount collide max_sum --dimension 4 --length 16 --length 64 --out collisions"
DENSITY = "headcount density 'sin(3*x[0,0]) * x[4,0]' --length 8 --degree 6"
app.command(rich_help_panel=THEORY, epilog=f"Example:  {BOUNDS}")(bounds)
app.command(rich_help_panel=THEORY, epilog=f"Example:  {CONSTRUCT}")(construct)
app.command(rich_help_panel=THEORY, epilog=f"Example:  {COLLIDE}")(collide)
app.command(rich_help_panel=THEORY, epilog=f"Example:  {DENSITY}")(density)
app.command(rich_help_panel=THEORY, epilog="Example:  headcount rates --json")(rates)


def command() -> NoReturn:
    """The command line as a process of its own, which ends at once when there is no more to say.

    Threads of native libraries, such as Arrow's, outlive the last line. Where C++ takes its objects apart
    while they run, the process aborts now and then, and 134 is its exit code whatever was to be said.
    """
    try:
        main()
        code: object = 0
    except SystemExit as ended:
        code = ended.code or 0
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads any more
            stream.flush()
    os._exit(code if isinstance(code, int) else MISTAKE)


def main() -> None:
    """Run the command line; a person's mistake is one line and exit code 2."""
    try:
        code = app(standalone_mode=False)
    except HeadcountError as error:
        code = _mistake(str(error))
    except TyperException as error:
        code = _mistake(error.format_message())
    except (KeyboardInterrupt, typer.Abort):
        print("headcount: interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _mistake(message: str) -> int:
    print(f"headcount: error: {' '.join(message.split())}", file=sys.stderr)
    return MISTAKE


def _run(
    trials: Sequence["Trial"], out: Path, *, title: str, command: str, as_json: bool, engine: Engine
) -> None:
    """Train into a folder while a person looks on, then write the page."""
    from headcount.commands.training import train_in_view
    from headcount.engine import Store

    store = Store(out)
    _holds_no_estimate(store)
    seen = train_in_view(trials, store, command=command, quiet=as_json, engine=engine)
    _report(store, title=title, command=command, as_json=as_json, told=seen.problems)
    if seen.given_up:
        print(
            f"headcount: error: {seen.given_up:,} of {len(trials):,} members are missing, since their packs "
            f"failed; to try them again: {command}",
            file=sys.stderr,
        )
        raise typer.Exit(INCOMPLETE)


def _holds_no_estimate(store: "Store") -> None:
    """An estimate's page is not written over by a sweep's, which says other things."""
    if os.path.exists(store.estimate):  # noqa: PTH110  # unlike a path's own, it takes any name
        raise InvalidInput(
            f"{store.folder}: holds an estimate, and `headcount estimate` writes its page; "
            "allowed is another folder"
        )


def _report(store: "Store", *, title: str, command: str, as_json: bool, told: Collection[str] = ()) -> None:
    """Write the page of a results folder and say what it shows."""
    from headcount.estimate import transitions
    from headcount.report import write_page

    frame = store.frame()
    for problem in store.problems:
        if problem not in told:
            print(f"headcount: {problem}", file=sys.stderr)
    if frame.empty:
        raise InvalidInput(f"{store.folder}: holds no finished trial")
    found = transitions(frame)
    write_page(
        frame, store.page, title=title, findings=[str(transition) for transition in found], command=command
    )
    failed = int((frame["status"] == "diverged").sum())
    if as_json:
        summary = {
            "members": len(frame),
            "failed": failed,
            "transitions": [{**asdict(transition), "clear": transition.clear} for transition in found],
            "page": str(store.page),
        }
        print(json.dumps(summary, indent=2))
        return
    for transition in found:
        print(transition)
    print(f"{len(frame)} members, {failed} failed. Page: {store.page}")
