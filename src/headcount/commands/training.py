"""Training that a person looks on at: shared by every command that trains."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headcount.engine import Store, Trial

INTERRUPTED = 130


def train_in_view(
    trials: "Sequence[Trial]", store: "Store", *, command: str, quiet: bool, keep_models: bool = False
) -> list[str]:
    """Train what the store does not hold yet; returns what was said of files that could not be used."""
    from rich.console import Console

    from headcount.engine import run
    from headcount.terminal import LiveGrid

    try:
        with LiveGrid(trials, Console(stderr=True), quiet=quiet) as view:
            for event in run(trials, store, keep_models=keep_models):
                view.tell(event)
    except KeyboardInterrupt:
        print(
            f"headcount: interrupted; what is finished is kept. To go on: {command}",
            file=sys.stderr,
            flush=True,
        )
        os._exit(INTERRUPTED)  # a chunk may still be running in its thread: nothing of it is needed
    return view.problems
