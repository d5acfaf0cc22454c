"""Progress of `fit`, in a terminal or a notebook."""

import sys
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

from headcount.estimate.countdown import Countdown
from headcount.estimate.members import Stage
from headcount.running.executor import Event


def is_interactive() -> bool:
    """Whether somebody is watching: standard error is a terminal, or this is a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") or (sys.stderr is not None and sys.stderr.isatty())


class FitProgress(Progress):
    """A bar for each stage, and below them why the current one is trained and how long all still takes."""

    def __init__(self, countdown: Countdown, *, shown: bool) -> None:
        self.countdown = countdown
        columns = TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn()
        super().__init__(*columns, console=Console(stderr=True), disable=not shown)

    def begin(self, stage: Stage) -> None:
        """Add the bar of a stage."""
        self._bar = self.add_task(self.countdown.title, total=1.0)

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
