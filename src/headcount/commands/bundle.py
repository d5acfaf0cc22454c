"""`headcount bundle`: headcount and all it needs in one folder, for a machine without network."""

import json
import platform as this
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headcount.commands.options import AsJson

if TYPE_CHECKING:
    from headcount.bundle import Bundle

PYTHON = ".".join(this.python_version_tuple()[:2])
PLATFORM = "manylinux_2_28_x86_64"


def bundle(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.", show_default=False)],
    python: Annotated[
        str, typer.Option(help="The Python there.", show_default="this one's version")
    ] = PYTHON,
    platform: Annotated[
        str, typer.Option(help="The platform there, as wheels name it: Linux with glibc 2.28 or later.")
    ] = PLATFORM,
    extra: Annotated[
        list[str] | None, typer.Option(help="An extra of headcount's; may be repeated.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put all wheels into one folder, for a compute node without network.

    Run it where there is a network. It fetches the wheels of everything that
    headcount needs for that Python and platform, adds headcount's own, and
    prints the one command that installs them there; DIR/INSTALL.txt has it
    too. In a checkout the versions are those of constraints.txt. Run it again
    after a kill, or when the code has changed: DIR is made whole.
    """
    from rich.console import Console

    from headcount.bundle import Target, find_source, make

    target = Target.of(python=python, platform=platform, extras=extra or ())
    with Console(stderr=True, quiet=as_json).status("looking at the folder") as status:
        made = make(folder, target, find_source(), tell=status.update)
    if as_json:
        print(json.dumps(_as_json(made), indent=2))
    else:
        _show(made)


def _as_json(made: "Bundle") -> dict[str, object]:
    return {
        "folder": str(made.folder),
        "target": asdict(made.target),
        "already": made.already,
        "bytes": made.bytes,
        "command": made.command,
        "wheels": [asdict(wheel) for wheel in made.wheels],
    }


def _show(made: "Bundle") -> None:
    already = " It was complete already." if made.already else ""
    print(
        f"{len(made.wheels)} wheels, {made.bytes / 1e6:,.0f} MB, for {made.target}: {made.folder}.{already}"
    )
    print("Copy the folder to the machine without network, and run there:\n")
    print(f"    {made.command}")
