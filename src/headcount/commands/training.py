"""Training with a view of its progress: shared by every command that trains."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from headcount.commands.engines import Engine
from headcount.commands.options import INCOMPLETE, INTERRUPTED
from headcount.errors import ClusterLost

if TYPE_CHECKING:
    from headcount.commands.terminal import LiveGrid
    from headcount.results.store import Store
    from headcount.trials.trial import Trial


def train_in_view(
    trials: "Sequence[Trial]",
    store: "Store",
    *,
    command: str,
    quiet: bool,
    keep_models: bool = False,
    engine: Engine | None = None,
) -> "LiveGrid":
    """Train what the store does not hold yet, on this machine or where the engine has its own.

    Returns the view, which knows the problems that came up and how many members were given up.
    """
    from rich.console import Console

    from headcount.commands.terminal import LiveGrid
    from headcount.results.files import check_writable

    check_writable("--out", store.folder)
    with _ending_at_once(command), (engine or Engine()).started(quiet=quiet) as run:
        view = LiveGrid(trials, Console(stderr=True), quiet=quiet)
        # Within as well: nobody waits for a cluster to be left in good order.
        with _ending_at_once(command), view, _interrupted_at_once(command, view):
            for event in run(trials, store, keep_models=keep_models):
                view.show(event)
        return view


@contextmanager
def _interrupted_at_once(command: str, view: "LiveGrid") -> Iterator[None]:
    """Ctrl-C ends the process where it is. As an exception it would have to wait for the current chunk."""

    def end(*_: object) -> NoReturn:
        view.live.stop()
        _end(f"interrupted; what is finished is kept. To go on: {command}", INTERRUPTED)

    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield
        return
    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _ending_at_once(command: str) -> Iterator[None]:
    """At Ctrl-C, and when a cluster is lost: Ray would wait for it for a minute."""
    try:
        yield
    except KeyboardInterrupt:
        _end(f"interrupted; what is finished is kept. To go on: {command}", INTERRUPTED)
    except ClusterLost as lost:
        _end(f"error: {lost}; what is finished is kept. To go on: {command}", INCOMPLETE)


def _end(line: str, code: int) -> NoReturn:
    print(f"headcount: {line}", file=sys.stderr, flush=True)
    os._exit(code)  # a chunk may still be running in its thread: nothing of it is needed
