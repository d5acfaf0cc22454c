"""Progress of `fit`: bars in a terminal or a notebook that can draw them, otherwise a line for each stage."""

import sys
from collections.abc import Iterable
from importlib.util import find_spec

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from headcount.estimate.countdown import Countdown
from headcount.running.executor import Event


def is_interactive() -> bool:
    """Whether somebody is watching: standard error is a terminal, or this is a notebook."""
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class FitProgress(Progress):
    """A bar for each stage, and below them why the current one is trained and how long all still takes."""

    def __init__(self, countdown: Countdown, *, shown: bool) -> None:
        self.countdown = countdown
        columns = TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn()
        console = Console(stderr=True)
        # Rich draws in a notebook by widgets alone.
        drawn = find_spec("ipywidgets") is not None if _in_notebook() else console.is_terminal
        self._in_lines = shown and not drawn
        super().__init__(*columns, console=console, disable=not (shown and drawn))

    def begin(self) -> None:
        """Add the bar, or print the line, of the stage that begins."""
        self._bar = self.add_task(self.countdown.title, total=1.0)
        if self._in_lines:
            print(self.countdown.line, file=sys.stderr, flush=True)

    def note(self, event: Event) -> None:
        """Move the bar of the current stage."""
        self.countdown.note(event)
        self.update(self._bar, completed=self.countdown.fraction)

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bars, and what is under way."""
        yield from super().get_renderables()
        if self.countdown.stage is not None and not self.finished:
            yield Text(f"{self.countdown.time_left}: {self.countdown.stage.reason}", style="dim")
            yield Text(self.countdown.best, style="dim")
