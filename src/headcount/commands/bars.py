"""Bars for work with a given end."""

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn

from headcount.results.numbers import scientific


class DistilProgress(Progress):
    """A bar for each solution that is distilled, with its distance so far; none without a terminal."""

    def __init__(self, *, shown: bool) -> None:
        console = Console(stderr=True)
        columns = TextColumn("{task.description}"), BarColumn(bar_width=20), TaskProgressColumn()
        super().__init__(*columns, console=console, disable=not (shown and console.is_terminal))
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> "DistilProgress":
        return self  # nothing to draw yet

    def note(self, solution: str, used: float, best: float) -> None:
        """How far a solution is, and how close it has come."""
        self.start()
        if solution not in self._bars:
            self._bars[solution] = self.add_task("", total=1.0)
        description = f"{solution} plan, held-out distance {scientific(best)}"
        self.update(self._bars[solution], completed=used, description=description)
