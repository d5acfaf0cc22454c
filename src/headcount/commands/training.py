"""Training with a view of its progress, on this machine or on a Ray cluster."""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from headcount.commands.options import INCOMPLETE, INTERRUPTED
from headcount.errors import ClusterLost, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Generator

    from headcount.running.executor import Event
if TYPE_CHECKING:
    from headcount.commands.terminal import LiveGrid
    from headcount.estimate.countdown import Countdown
    from headcount.results.store import Store
    from headcount.trials.trial import Trial


Run = Callable[..., "Generator[Event, None, None]"]
EngineName = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="local: this machine. ray: a Ray cluster, or Ray on this machine."),
]
Address = Annotated[
    str | None,
    typer.Option(help="HOST:PORT of a running Ray cluster, or auto to find it.", show_default=False),
]


@dataclass(frozen=True)
class Engine:
    """An engine by name, with the address of its cluster if it has one; making it changes nothing."""

    name: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.address is not None and self.name != "ray":
            raise InvalidInput(f"--address: expected only with --engine ray, got {self.address}")

    def prepare(self) -> None:
        """Set this process up for the engine, before anything else in it uses JAX or Ray."""
        if self.name == "ray":
            import jax

            from headcount.cluster.connection import imported

            imported(self.address)
            jax.config.update("jax_platforms", "cpu")  # the GPUs are for the workers

    @property
    def options(self) -> str:
        """The options that ask for it on the command line."""
        engine = "" if self.name == "local" else f" --engine {self.name}"
        return engine if self.address is None else f"{engine} --address {shlex.quote(self.address)}"

    @contextmanager
    def started(self, *, quiet: bool) -> Iterator[Run]:
        """The function that runs trials into a store, while the engine is up."""
        self.prepare()
        if self.name == "local":
            from headcount.running.executor import run

            yield run
            return
        from rich.console import Console

        from headcount.cluster.connection import connected
        from headcount.cluster.run import run_on_ray

        where = "starting Ray on this machine" if self.address is None else f"asking for {self.address}"
        with ExitStack() as stack:
            with Console(stderr=True, quiet=quiet).status(where):
                stack.enter_context(connected(self.address))
            yield run_on_ray


def train_in_view(
    trials: "Sequence[Trial]",
    store: "Store",
    *,
    command: str,
    quiet: bool,
    keep_models: bool = False,
    engine: Engine | None = None,
    countdown: "Countdown | None" = None,
) -> "LiveGrid":
    """Train what the store does not hold yet, on this machine or where the engine has its own.

    A `countdown` is shown with it, and ends it when its time is up.
    Returns the view, which knows the problems that came up and how many members were given up.
    """
    from rich.console import Console

    from headcount.commands.terminal import LiveGrid
    from headcount.results.files import check_writable

    check_writable("--out", store.folder)
    with _ending_at_once(command), (engine or Engine()).started(quiet=quiet) as run:
        view = LiveGrid(trials, Console(stderr=True), quiet=quiet, countdown=countdown)
        # Within as well: nobody waits for a cluster to be left in good order.
        with (
            _ending_at_once(command),
            view,
            _interrupted_at_once(command, view),
            closing(run(trials, store, keep_models=keep_models)) as events,
        ):
            for event in events:
                view.show(event)
                if countdown is not None and countdown.is_up:
                    break
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
