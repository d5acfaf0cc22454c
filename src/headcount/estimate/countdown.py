"""How long a study still takes: said at its start, corrected by what its steps turn out to take."""

import math
import time
from collections.abc import Callable, Iterator, Mapping

from headcount.estimate.members import Stage
from headcount.estimate.study import Study
from headcount.results.numbers import scientific
from headcount.running.executor import Advanced, Event, Finished, Planned
from headcount.trials.machine import this_machine
from headcount.trials.pack import step_seconds
from headcount.trials.trial import TaskTrial
from headcount.validation import check_number

MAX_MINUTES = 100_000
STAGE_SECONDS = {"cpu": 5.0, "gpu": 10.0}  # of compiling
ANSWER_SECONDS, ANSWER_SHARE = 10.0, 0.25  # for evidence and page; of a few seconds no more than this share
PRIOR_SECONDS = 5.0  # after so much training the rough model of a machine counts half


def check_minutes(name: str, minutes: object) -> float | None:
    """How long an estimate may take; None where nobody waits for it."""
    return None if minutes is None else check_number(name, minutes, above=0, at_most=MAX_MINUTES)


class Countdown:
    """The stages of a study, as far as there is time for them, and the seconds that are left.

    The seconds are those of a rough model of this machine, times what training has taken so far relative to
    that model.
    """

    def __init__(
        self, study: Study, *, minutes: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.study = study
        self.stage: Stage | None = None
        self.not_begun: str | None = None
        self._clock = clock
        seconds = 60 * (minutes or 0.0)
        ends = clock() + seconds - min(ANSWER_SECONDS, ANSWER_SHARE * seconds)
        self._deadline = None if minutes is None else ends
        self._all: dict[str, float] = {}
        self._made: dict[str, float] = {}
        self._errors: dict[str, float] = {}
        self._stage_began = clock()
        self._stages_later = 0
        self._took = self._modelled = self._before = self._later = 0.0

    def stages(self) -> Iterator[Stage]:
        """The stages to be trained: none that no longer fits, and none after the time is up."""
        for stage in self.study.stages():
            self._begin(stage)
            if not self._fits:
                left = max(0.0, (self._deadline or 0.0) - self._clock())
                needed = about(self._seconds(self._left))
                self.not_begun = f"{self.title}: not begun, as it takes {needed} and {about(left)} are left"
                return
            yield stage
            self._end()
            if self.is_up:
                return

    @property
    def title(self) -> str:
        """The stage, with its number."""
        assert self.stage is not None
        of = len(self.study.kinds_of_stages)
        return f"Stage {self.stage.number} of at most {of}: {self.stage.name}"

    @property
    def line(self) -> str:
        """The stage with its reason, and the time that is left in all."""
        assert self.stage is not None
        return f"{self.title}, because {self.stage.reason}; {self.time_left}"

    @property
    def folded(self) -> str:
        """What is left to say of the stage once it is over."""
        if self._left > 1e-9:
            return f"– {self.title}: the time is up; what was trained is kept"
        return f"✓ {self.title} ({about(self._clock() - self._stage_began)})"

    @property
    def fraction(self) -> float:
        """How much of the stage is made."""
        made = self._done
        return made / max(made + self._left, 1e-9)

    @property
    def time_left(self) -> str:
        """The time until all stages are done, or until it is up."""
        return f"{about(self.seconds_left)} left in all"

    @property
    def best(self) -> str:
        """The lowest error so far of the members in training, and what it is a share of."""
        measure = (
            "log loss, share of that of guessing"
            if self.study.data.classes
            else "error, share of the variance"
        )
        lowest = min(filter(math.isfinite, self._errors.values()), default=None)
        value = "" if lowest is None else f": {scientific(lowest)} at best"
        return f"validation {measure}{value}"

    @property
    def seconds_left(self) -> float:
        """Of all stages that are likely to come, as far as there is time for them."""
        compiling = STAGE_SECONDS[this_machine().kind] * self._stages_later
        seconds = self._seconds(self._left + self._later) + compiling + ANSWER_SECONDS
        return seconds if self._deadline is None else min(seconds, max(0.0, self._deadline - self._clock()))

    @property
    def is_up(self) -> bool:
        """Whether there is no time left to train."""
        return self._deadline is not None and self._clock() >= self._deadline

    def note(self, event: Event) -> None:
        """Take note of what happened in the current stage."""
        match event:
            case Planned(finished=finished):
                self._finish(finished)
                self._before, self._stage_began = self._done, self._clock()
            case Advanced(pack=pack, step=step, errors=errors):
                for trial, error in zip(pack.trials, errors, strict=True):
                    share = min(1.0, step / trial.training.steps)
                    self._made[trial.id], self._errors[trial.id] = share * self._all[trial.id], error
            case Finished(rows=rows):
                self._finish({row.trial: row.validation_error for row in rows})

    def _begin(self, stage: Stage) -> None:
        self.stage, self._errors, self._made = stage, {}, {}
        self._all = {trial.id: modelled_seconds(trial) for trial in stage.trials}
        self._finish(self.study.finished_of(stage))
        self._later = sum(map(modelled_seconds, self.study.likely_after(stage)))
        self._stages_later = len(self.study.kinds_of_stages) - stage.number
        self._before, self._stage_began = self._done, self._clock()

    def _finish(self, errors: Mapping[str, float]) -> None:
        for trial in errors.keys() & self._all.keys():
            self._made[trial], self._errors[trial] = self._all[trial], errors[trial]

    def _end(self) -> None:
        self._took += self._clock() - self._stage_began
        self._modelled += self._done - self._before
        self._before, self._stage_began = self._done, self._clock()

    @property
    def _fits(self) -> bool:
        needed = STAGE_SECONDS[this_machine().kind] + self._seconds(self._left)
        return self._deadline is None or self._clock() + needed <= self._deadline

    @property
    def _done(self) -> float:
        """The seconds that the model gives to the steps that are made in this stage."""
        return sum(self._made.values())

    @property
    def _left(self) -> float:
        return sum(seconds - self._made.get(trial, 0.0) for trial, seconds in self._all.items())

    def _seconds(self, modelled: float) -> float:
        """What the model's seconds are, going by what training has taken so far."""
        made = self._done - self._before
        # Until a first chunk is made, what has passed says little: it is compiling.
        took = self._took + (self._clock() - self._stage_began) * (made > 0)
        return modelled * (took + PRIOR_SECONDS) / (self._modelled + made + PRIOR_SECONDS)


def modelled_seconds(trial: TaskTrial) -> float:
    """What a member takes by a rough model of this machine, whose lanes each train one."""
    machine = this_machine()
    return trial.training.steps * step_seconds(trial.architecture, trial, machine) / machine.lanes


def about(seconds: float) -> str:
    """A time that is only guessed.

    >>> about(12), about(100), about(5400)
    ('about 10 s', 'about 2 min', 'about 1.5 h')
    """
    if seconds < 55:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    return f"about {seconds / 60:.0f} min" if seconds < 3570 else f"about {seconds / 3600:.1f} h"
