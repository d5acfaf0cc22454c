"""Where members are trained: on this machine, or on a Ray cluster."""

import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from headcount.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Generator

    from headcount.running.events import Event

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
