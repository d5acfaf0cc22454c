"""The training of a study in a terminal: the stage under way is drawn, finished ones are a line each."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from headcount.commands.training import train_in_view
from headcount.estimate.countdown import Countdown, about
from headcount.trials.machine import this_machine

if TYPE_CHECKING:
    from headcount.estimate.study import Study


def train_in_stages(study: "Study", *, minutes: float | None, command: str, quiet: bool) -> None:
    """Train what there is time for; `quiet`, or where nobody watches, a line as each stage begins."""
    console = Console(stderr=True)
    watched = console.is_terminal and not quiet
    countdown = Countdown(study, minutes=minutes)

    def say(line: str, style: str = "") -> None:
        console.print(Text(line, style=style), soft_wrap=not watched)

    for place, stage in enumerate(countdown.stages()):
        if place == 0:
            expected = about(countdown.seconds_left).capitalize()
            say(f"{expected} on {this_machine().name}; corrected as stages finish.")
        if watched and stage.number == study.number("closer look"):
            say(f"First guess: {study.early_estimate().sentence}")
        if not watched:
            say(countdown.line)
        train_in_view(
            stage.trials,
            study.store,
            command=command,
            quiet=not watched,
            keep_models=True,
            countdown=countdown,
        )
        if watched:
            say(countdown.folded, "dim")
    if countdown.not_begun is not None:
        say(countdown.not_begun)
