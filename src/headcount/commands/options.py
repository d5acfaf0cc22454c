"""Options that several commands have, said once."""

from pathlib import Path
from typing import Annotated

import typer

Out = Annotated[Path, typer.Option("--out", help="Folder for the results; run again with it to resume.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and nothing else.")]
