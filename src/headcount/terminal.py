"""What a person sees while members train: a heads × length grid of errors that fills in."""

import math
import time
from collections.abc import Iterable
from types import TracebackType

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headcount.engine import Advanced, Event, Finished, Planned, Problem, Trial

CELL_WIDTH = 11
LEVELS = ((1e-3, "green"), (1e-2, "yellow"), (math.inf, "red"))


class LiveGrid:
    """A view of a run: it is told events and draws them, or keeps silent where nobody looks."""

    def __init__(self, trials: Iterable[Trial], console: Console, *, quiet: bool = False) -> None:
        self.trials = tuple(trials)
        self.quiet = quiet
        self.problems: list[str] = []
        self.errors: dict[str, float] = {}
        self.progress: dict[str, float] = {}
        self.began = time.monotonic()
        self.already = 0.0
        self.console = console
        self.live = Live(console=console, refresh_per_second=4, get_renderable=self.draw, transient=False)

    def __enter__(self) -> "LiveGrid":
        if self.console.is_terminal and not self.quiet:
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def tell(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case Planned(finished=finished):
                mine = [trial.id for trial in self.trials if trial.id in finished]
                self.progress = dict.fromkeys(mine, 1.0)
                self.errors = {trial: finished[trial] for trial in mine}
                self.already = self.fraction
            case Advanced(pack=pack, step=step, errors=errors):
                for trial, error in zip(pack.trials, errors, strict=True):
                    self.errors[trial.id] = error
                    # A pack is only finished once its rows are on disk.
                    self.progress[trial.id] = min(step / trial.training.steps, 0.99)
            case Finished(rows=rows):
                for row in rows:
                    self.errors[row.trial] = row.validation_error
                    self.progress[row.trial] = 1.0
            case Problem(line=line):
                self.problems.append(line)
                # In one piece, however long: a name cut in two can be neither searched for nor copied.
                self.console.print(Text(f"headcount: {line}", style="yellow"), soft_wrap=True)

    @property
    def fraction(self) -> float:
        """How much of all steps is made."""
        return sum(self.progress.values()) / max(1, len(self.trials))

    def draw(self) -> RenderableType:
        """One line of progress, and the grids below it."""
        groups: dict[tuple[str, int], list[Trial]] = {}
        for trial in self.trials:
            groups.setdefault((trial.task.name, trial.task.dimension), []).append(trial)
        tables = [
            self._table(f"{task}, D = {dimension}" if dimension else task, trials, lengths)
            for (task, dimension), trials in groups.items()
            for lengths in self._fitting(sorted({trial.length for trial in trials}))
        ]
        # On top, where a low terminal does not cut it off.
        return Group(self._progress_line(), Columns(tables, padding=(0, 1)))

    def _fitting(self, lengths: list[int]) -> list[list[int]]:
        """The lengths in runs that fit the width of the terminal side by side."""
        most = max(1, (self.console.width - 10) // CELL_WIDTH)
        return [lengths[start : start + most] for start in range(0, len(lengths), most)]

    def _table(self, title: str, trials: list[Trial], lengths: list[int]) -> Table:
        table = Table(title=title, title_justify="left", title_style="bold")
        table.add_column("heads", justify="right")
        for length in lengths:
            table.add_column(f"T = {length}", justify="right", min_width=7)
        for heads in sorted({trial.architecture.heads for trial in trials}):
            row = [trial for trial in trials if trial.architecture.heads == heads]
            cells = (self._cell([trial for trial in row if trial.length == length]) for length in lengths)
            table.add_row(str(heads), *cells)
        return table

    def _cell(self, trials: list[Trial]) -> Text:
        errors = [
            self.errors[trial.id] for trial in trials if math.isfinite(self.errors.get(trial.id, math.nan))
        ]
        if not errors:
            return Text("✓" if trials and all(map(self._finished, trials)) else "·", style="dim")
        best = min(errors)
        colour = next(colour for limit, colour in LEVELS if best <= limit)
        return Text(f"{best:.1e}", style=colour if all(map(self._finished, trials)) else f"dim {colour}")

    def _finished(self, trial: Trial) -> bool:
        return self.progress.get(trial.id, 0.0) == 1.0

    def _progress_line(self) -> Text:
        finished = sum(map(self._finished, self.trials))
        line = f"{finished} of {len(self.trials)} members, {self.fraction:.0%} of the steps"
        made = self.fraction - self.already
        if made > 0.02 and finished < len(self.trials):
            left = (time.monotonic() - self.began) * (1 - self.fraction) / made
            line += f", about {_duration(left)} left"
        return Text(line, style="dim")


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
