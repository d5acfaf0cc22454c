"""`headcount merge`: results folders of several machines become one."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from headcount.commands.options import AsJson

MAX_NAMED = 20


def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Results folders.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option("--out", help="A new folder for all of it; run again to resume.", show_default=False),
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Rows of one trial must be equal to the last digit.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Join the results of several machines: every trial once.

    Reads the results folders DIR, which stay as they are, and writes one row
    for each trial to OUT, with the models that were kept. Rows of one trial
    agree when they differ by no more than the same trial does in another
    pack: errors by 0.1% after up to 300 steps and by 10% after more. Of rows
    that agree the quickest is kept. Where two rows contradict each other, they
    are named and nothing is written. Run it again after a kill, or when a
    folder has grown: OUT is made whole.
    """
    from rich.console import Console

    from headcount.results.merge import Contradiction
    from headcount.results.merge import merge as join

    try:
        with Console(stderr=True, quiet=as_json).status("looking at the folders") as status:
            made = join(folders, out, status.update, strict=strict)
    except Contradiction as error:
        for conflict in error.conflicts[1:MAX_NAMED]:  # the error itself names the first
            print(f"headcount: {conflict.line()}", file=sys.stderr)
        if len(error.conflicts) > MAX_NAMED:
            print(f"headcount: and {len(error.conflicts) - MAX_NAMED:,} more", file=sys.stderr)
        raise
    for problem in made.problems:
        print(f"headcount: {problem}", file=sys.stderr)
    if as_json:
        members = {str(folder): count for folder, count in made.members.items()}
        numbers = {"out": str(made.out), "trials": made.trials, "shared": made.shared, "models": made.models}
        print(json.dumps({**numbers, "folders": members, "problems": list(made.problems)}, indent=2))
        return
    for folder, count in made.members.items():
        print(f"{count:>9,} in {folder}")
    print(
        f"{made.trials:>9,} trials altogether in {made.out}: {made.shared:,} of them from more than one "
        f"folder, {made.models:,} with a kept model."
    )
