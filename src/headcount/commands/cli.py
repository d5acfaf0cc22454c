"""The command line: a thin skin over the library. Mistakes are one line, and exit code 2."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from headcount.commands.bounds import bounds
from headcount.commands.collide import collide
from headcount.commands.construct import construct
from headcount.commands.demo import demo
from headcount.commands.density import density
from headcount.commands.estimate import estimate
from headcount.commands.merge import merge
from headcount.commands.rates import rates
from headcount.commands.report import report
from headcount.commands.reproduce import reproduce
from headcount.commands.sweep import example, sweep
from headcount.commands.training import INTERRUPTED
from headcount.errors import HeadcountError

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


app.command(epilog="Example:  headcount demo --out demo")(demo)
app.command(epilog="Example:  headcount sweep spec.toml --out runs/mine")(sweep)
app.command(epilog="Example:  headcount example > spec.toml")(example)
app.command(epilog="Example:  headcount report runs/mine")(report)
app.command(epilog="Example:  headcount estimate mine.npz --out estimate")(estimate)
app.command(epilog="Example:  headcount reproduce table2 --quick")(reproduce)
app.command(epilog="Example:  headcount merge runs/laptop runs/node1 runs/node2 --out runs/all")(merge)

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
        code = app(prog_name="headcount", standalone_mode=False)
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
