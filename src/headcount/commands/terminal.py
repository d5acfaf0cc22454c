"""The view of a run in a terminal: a heads × length grid of errors that fills in."""

import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headcount.results.numbers import scientific
from headcount.running.executor import Advanced, Event, FileProblem, Finished, GivenUp, Planned, WorkerCount
from headcount.trials.trial import Trial

if TYPE_CHECKING:
    from headcount.estimate.countdown import Countdown

CELL_WIDTH = 11
REPORT_EVERY = 30.0  # seconds between lines where there is no terminal to draw on
LEVELS = ((1e-3, "green"), (1e-2, "yellow"), (math.inf, "red"))


class Cell:
    """The members of one number of heads and one length; drawn anew only after it has changed."""

    def __init__(self) -> None:
        self.errors: dict[str, float] = {}
        self.unfinished: set[str] = set()
        self._drawn: Text | None = None

    def note(self, trial: str, error: float, *, finished: bool) -> None:
        """A member came to this error."""
        self._drawn = None
        self.errors[trial] = error
        if finished:
            self.unfinished.discard(trial)

    def draw(self) -> Text:
        """The best error, bright once all members are finished."""
        self._drawn = self._drawn or self._draw()
        return self._drawn

    def _draw(self) -> Text:
        best = min(filter(math.isfinite, self.errors.values()), default=None)
        if best is None:
            return Text("·" if self.unfinished else "✓", style="dim")
        colour = next(colour for limit, colour in LEVELS if best <= limit)
        return Text(scientific(best), style=f"dim {colour}" if self.unfinished else colour)


class LiveGrid:
    """A view of a run: it draws its events, or prints now and then in a line how far it is.

    What it draws costs as much as there are cells, however many members they have.
    """

    def __init__(
        self,
        trials: Iterable[Trial],
        console: Console,
        *,
        quiet: bool = False,
        countdown: "Countdown | None" = None,
    ) -> None:
        self.trials = tuple(trials)
        self.quiet = quiet
        self.countdown = (
            countdown  # of the stages of which this run is one: then the grid goes when it is done
        )
        self.problems: list[str] = []
        self.given_up = 0
        self.progress: dict[str, float] = {}
        self.made = self.already = 0.0
        self.finished = self.finished_before = 0
        self.worker_count: WorkerCount | None = None
        self.began = self.reported = time.monotonic()
        self.console = console
        self.grids: dict[tuple[str, int], dict[tuple[int, int], Cell]] = {}
        self.cells: dict[str, Cell] = {}
        for trial in self.trials:
            grid = self.grids.setdefault((trial.task.name, trial.task.dimension), {})
            cell = grid.setdefault((trial.architecture.heads, trial.length), Cell())
            cell.unfinished.add(trial.id)
            self.cells[trial.id] = cell
        self.live = Live(
            console=console, refresh_per_second=4, get_renderable=self.draw, transient=countdown is not None
        )

    def __enter__(self) -> "LiveGrid":
        if self.console.is_terminal and not self.quiet:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def show(self, event: Event) -> None:
        """Take note of what happened."""
        if self.countdown is not None:
            self.countdown.note(event)
        match event:
            case Planned(finished=finished):
                for trial in self.cells.keys() & finished.keys():
                    self._note(trial, finished[trial], 1.0)
                self.already, self.finished_before = self.fraction, self.finished
                self.began = time.monotonic()
            case Advanced(pack=pack, step=step, errors=errors):
                for member, error in zip(pack.trials, errors, strict=True):
                    # A pack is only finished once its rows are on disk.
                    self._note(member.id, error, min(step / member.training.steps, 0.99))
            case Finished(rows=rows):
                for row in rows:
                    self._note(row.trial, row.validation_error, 1.0)
            case WorkerCount():
                self.worker_count = event
            case GivenUp(pack=pack):
                self.given_up += len(pack.trials)
                self._say(event.line, "red")
            case FileProblem(line=line):
                self.problems.append(line)
                self._say(line, "yellow")
        self._say_progress()

    def _say_progress(self) -> None:
        """A plain line for a log, where the grid cannot be drawn."""
        if self.countdown is not None:  # which has a line for each stage
            return
        if self.console.is_terminal or self.quiet or time.monotonic() - self.reported < REPORT_EVERY:
            return
        self.reported = time.monotonic()
        self._say("; ".join(line.plain for line in self._progress_lines()), "dim")

    def _note(self, trial: str, error: float, progress: float) -> None:
        before = self.progress.get(trial, 0.0)
        self.progress[trial] = progress
        self.made += progress - before
        self.finished += (progress == 1.0) - (before == 1.0)
        self.cells[trial].note(trial, error, finished=progress == 1.0)

    def _say(self, line: str, style: str) -> None:
        # In one piece, however long: a name cut in two can be neither searched for nor copied.
        self.console.print(Text(f"headcount: {line}", style=style), soft_wrap=True)

    @property
    def fraction(self) -> float:
        """How much of all steps is made."""
        return self.made / max(1, len(self.trials))

    def draw(self) -> RenderableType:
        """One line of progress, and the grids below it."""
        tables = [
            self._table(self._title(task, dimension), cells, lengths)
            for (task, dimension), cells in self.grids.items()
            for lengths in self._fitting(sorted({length for _, length in cells}))
        ]
        # On top, where a low terminal does not cut it off.
        return Group(*self._progress_lines(), Columns(tables, padding=(0, 1)))

    def _title(self, task: str, dimension: int) -> str | None:
        """The task; of a user's own data there is but one, and its lines say more."""
        if self.countdown is not None:
            return None
        return f"{task}, D = {dimension}" if dimension else task

    def _fitting(self, lengths: list[int]) -> list[list[int]]:
        """The lengths in runs that fit the width of the terminal side by side."""
        fitting = max(1, (self.console.width - 10) // CELL_WIDTH)
        return [lengths[start : start + fitting] for start in range(0, len(lengths), fitting)]

    def _table(self, title: str | None, cells: dict[tuple[int, int], Cell], lengths: list[int]) -> Table:
        table = Table(title=title, title_justify="left", title_style="bold")
        table.add_column("heads", justify="right")
        for length in lengths:
            table.add_column(f"T = {length}", justify="right", min_width=7)
        for heads in sorted({heads for heads, _ in cells}):
            row = (cells.get((heads, length)) for length in lengths)
            table.add_row(
                str(heads), *(Text("·", style="dim") if cell is None else cell.draw() for cell in row)
            )
        return table

    def _progress_lines(self) -> list[Text]:
        members = _count(len(self.trials), "member")
        line = f"{self.finished:,} of {members}, {self.fraction:.0%} of the steps"
        made, took = self.fraction - self.already, time.monotonic() - self.began
        if made > 0.02 and self.finished < len(self.trials):
            left = took * (1 - self.fraction) / made
            line += f", about {left:.0f} s left" if left < 90 else f", about {left / 60:.0f} min left"
        if self.countdown is not None:
            line = f"{self.finished:,} of {members}; {self.countdown.best}"
        lines = [line] if self.countdown is None else [self.countdown.line, line]
        if self.worker_count is not None:
            rate = (self.finished - self.finished_before) / max(took, 1e-9)
            workers, packs = (
                _count(self.worker_count.workers, "worker"),
                _count(self.worker_count.in_flight, "pack"),
            )
            lines.append(f"{workers}, {packs} in flight, {rate:.2g} members per second")
        return [Text(line, style="dim") for line in lines]


def _count(number: int, noun: str) -> str:
    """A number of things: 1 pack, 2 packs."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
