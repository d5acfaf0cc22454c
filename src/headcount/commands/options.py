"""Options that several commands have, and options that were renamed."""

import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option("--out", help="Folder for the results; run again with it to resume.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON; progress goes to standard error.")
]

INCOMPLETE, MISTAKE, INTERRUPTED = 1, 2, 130  # exit codes

MAX_HEADS = {"--most-heads": "--max-heads"}
RENAMED = {"collide": MAX_HEADS, "estimate": MAX_HEADS}  # accepted with a warning until the next release

# Arguments in messages about data, as Python words them: target="labels", padding=0.
ARGUMENT = re.compile(r'\b(x|y|mask|id|time|features|target|tokens|padding)=(?:"([^"]*)"|(-?[\d.]+))')


def worded_as_options(line: str) -> str:
    """The line with arguments as options of the command line.

    >>> worded_as_options('y: numbers (if they are labels: target="labels")')
    'y: numbers (if they are labels: --target labels)'
    """
    line = line.replace("pass `mask`", "name the mask with --mask")
    return ARGUMENT.sub(lambda found: f"--{found[1]} {shlex.quote(found[2] or found[3])}", line)


def with_current_names(arguments: Sequence[str]) -> list[str]:
    """The arguments with current names in place of former ones, and a warning for each of these.

    >>> with_current_names(["collide", "--seed", "1"])
    ['collide', '--seed', '1']
    """
    current, renamed = [], RENAMED.get(arguments[0], {}) if arguments else {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in renamed:
            new = renamed[name]
            print(f"headcount: warning: {name} is deprecated, use {new} instead", file=sys.stderr)
            argument = f"{new}{equals}{value}"
        current.append(argument)
    return current
