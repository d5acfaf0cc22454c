"""A progress bar for `fit`, in a terminal or a notebook."""

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from headcount.estimate.members import Stage
from headcount.running.executor import Advanced, Event, Finished, Planned


def is_interactive() -> bool:
    """Whether somebody is watching: standard error is a terminal, or this is a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel") or (sys.stderr is not None and sys.stderr.isatty())


class FitProgress(Progress):
    """A bar for each stage, measured in training steps."""

    def __init__(self, *, shown: bool) -> None:
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        super().__init__(*columns, console=Console(stderr=True), disable=not shown)

    def begin(self, stage: Stage) -> None:
        """Add the bar of a stage."""
        self._done = dict.fromkeys((trial.id for trial in stage.trials), 0)
        self._bar = self.add_task(stage.name, total=sum(trial.training.steps for trial in stage.trials))
        self._steps = {trial.id: trial.training.steps for trial in stage.trials}

    def note(self, event: Event) -> None:
        """Move the bar of the current stage."""
        match event:
            case Planned(finished=finished):
                self._done |= {trial: self._steps[trial] for trial in finished if trial in self._steps}
            case Advanced(pack=pack, step=step):
                self._done |= {trial.id: min(step, self._steps[trial.id]) for trial in pack.trials}
            case Finished(rows=rows):
                self._done |= {row.trial: self._steps[row.trial] for row in rows}
        self.update(self._bar, completed=sum(self._done.values()))
