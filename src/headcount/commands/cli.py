"""The command line: a thin skin over the library. Invalid input is one line, and exit code 2."""

import os
import re
import sys
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from headcount.commands.options import INTERRUPTED, MISTAKE, with_current_names
from headcount.errors import HeadcountError
from headcount.version import __version__

SETTINGS: dict[str, Any] = {
    "context_settings": {"help_option_names": ["-h", "--help"]},
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich",
}

THEORY = "The theory"
# The panel and the example of each command, which is a function of that name in a module of that name.
COMMANDS: dict[str, tuple[str | None, str]] = {
    "estimate": (None, "headcount estimate mine.npz --out estimate"),
    "demo": (None, "headcount demo --out demo"),
    "plan": (None, "headcount plan 4 --layers 1 --layers 6"),
    "inspect": (None, "headcount inspect models/bert texts.jsonl --out inspect"),
    "shrink": (None, "headcount shrink inspect/plan.json --out small"),
    "sweep": (None, "headcount sweep spec.toml --out runs/mine"),
    "example": (None, "headcount example > spec.toml"),
    "report": (None, "headcount report runs/mine"),
    "reproduce": (None, "headcount reproduce table2 --quick"),
    "merge": (None, "headcount merge runs/laptop runs/node1 runs/node2 --out runs/all"),
    "bounds": (THEORY, "headcount bounds --dimension 4 --heads 3 --head-dim 8 --length 128"),
    "construct": (THEORY, "headcount construct specialise bowls --dimension 4 --token-dim 2 --length 64"),
    "collide": (THEORY, "headcount collide max_sum --dimension 4 --length 16 --length 64 --out collisions"),
    "density": (THEORY, "headcount density 'sin(3*x[0,0]) * x[4,0]' --length 8 --degree 6"),
    "rates": (THEORY, "headcount rates --json"),
}


class Command(TyperCommand):
    """A command whose help is as wide as the terminal."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Arguments by their names; those that may be left out are in brackets."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        from headcount.commands.help_pages import lay_out

        lay_out(self, self.get_params(ctx))
        super().format_help(ctx, formatter)


class Commands(TyperGroup):
    """A group that imports a command when it is called, and all commands to list them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names, in the order in which they are shown."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; an unknown name loads all of them, so that the message can suggest one."""
        for name in [cmd_name] if cmd_name in COMMANDS else COMMANDS:
            if name not in self.commands:
                self.commands[name] = _loaded(name)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, with the first lines of that of all commands."""
        from headcount.commands.help_pages import lay_out

        for name in self.list_commands(ctx):
            lay_out(self.get_command(ctx, name), parameters=())
        lay_out(self, self.get_params(ctx))
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with options that were renamed by their current names."""
        return super().parse_args(ctx, with_current_names(args))


def _loaded(name: str) -> Any:
    panel, example = COMMANDS[name]
    module = import_module(f"headcount.commands.{'sweep' if name == 'example' else name}")
    alone = typer.Typer(add_completion=False, **SETTINGS)
    described = {"rich_help_panel": panel, "epilog": f"Example:  {example}"}
    alone.command(name, cls=Command, **described)(getattr(module, name))  # type: ignore[arg-type]
    return typer.main.get_command(alone)


app = typer.Typer(
    name="headcount",
    cls=Commands,
    help="How many attention heads does this task need? An answer, with evidence.",
    invoke_without_command=True,
    **SETTINGS,
)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"headcount {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
]


@app.callback()
def headcount(context: typer.Context, version: Version = False) -> None:
    """How many attention heads does this task need? An answer, with evidence."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def command() -> NoReturn:
    """The command line as a process of its own, which ends at once when the command is done.

    Threads of native libraries, such as Arrow's, outlive the last line. If the interpreter shut down while
    they run, the process would abort now and then with exit code 134.
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
    """Run the command line; invalid input is one line and exit code 2."""
    try:
        code = app(standalone_mode=False, prog_name="headcount")
    except HeadcountError as error:
        code = _mistake(str(error))
    except TyperException as error:
        from headcount.commands.refusals import refusal

        code = _mistake(refusal(error))
    except (KeyboardInterrupt, typer.Abort):
        print("headcount: interrupted", file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def _mistake(message: str) -> int:
    print(f"headcount: error: {' '.join(message.split())}", file=sys.stderr)
    return MISTAKE
