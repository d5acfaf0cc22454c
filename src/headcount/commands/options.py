"""Options that several commands have, said once."""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from headcount.errors import InvalidInput

Out = Annotated[Path, typer.Option("--out", help="Folder for the results; run again with it to resume.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]


def check_writable(out: Path) -> None:
    """Refuse a folder that cannot be made or written to; nothing is left behind."""
    try:
        with tempfile.TemporaryDirectory(dir=_nearest_there(out)):
            pass
    except OSError as error:
        raise InvalidInput(
            f"--out = {out}: cannot be written to: {error.strerror}; allowed is a folder"
        ) from None


def _nearest_there(path: Path) -> Path:
    """The path, or the nearest folder above it that there is."""
    try:
        path.lstat()
    except FileNotFoundError:
        return _nearest_there(path.parent)
    return path
