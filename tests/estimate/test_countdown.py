"""How long a study still takes, and what is begun where its time is limited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_study import small_study, train

from headcount.errors import InvalidInput
from headcount.estimate import countdown
from headcount.estimate.countdown import (
    ANSWER_SECONDS,
    PRIOR_SECONDS,
    STAGE_SECONDS,
    Countdown,
    about,
    check_minutes,
)
from headcount.running.executor import Advanced, Planned
from headcount.trials.pack import Pack

pytestmark = pytest.mark.usefixtures("compiled_quickly")


class Clock:
    """Goes on when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(countdown, "modelled_seconds", lambda trial: trial.training.steps / 20)
    return Clock()


def advanced(stage, share):
    pack = Pack(stage.trials, stage.trials[0].architecture)
    steps = stage.trials[0].training.steps
    return Advanced(pack, int(share * steps), (0.5, float("nan"), 0.25)[: len(stage.trials)])


def test_what_is_left_follows_from_what_a_step_has_taken(tmp_path, clock):
    seen = Countdown(small_study(tmp_path), clock=clock)
    stage = next(seen.stages())
    after = seen.study.likely_after(stage)
    modelled = sum(trial.training.steps for trial in (*stage.trials, *after)) / 20
    besides = (len(seen.study.kinds_of_stages) - 1) * STAGE_SECONDS["cpu"] + ANSWER_SECONDS
    assert seen.seconds_left == pytest.approx(modelled + besides)
    seen.note(Planned((), {}))
    clock.now += 300.0  # ten times what the model gives to the whole stage
    assert seen.seconds_left == pytest.approx(modelled + besides), "nothing is made yet: it is compiling"
    seen.note(advanced(stage, 1.0))
    left = sum(trial.training.steps for trial in after) / 20
    assert seen.seconds_left == pytest.approx(left * (300 + PRIOR_SECONDS) / (30 + PRIOR_SECONDS) + besides)
    assert seen.fraction == pytest.approx(1.0)
    assert seen.best == "validation error, share of the variance: 2.5e-1 at best"


def test_a_stage_that_no_longer_fits_is_not_begun(tmp_path, clock):
    asked = small_study(tmp_path)
    seen = Countdown(asked, minutes=1.0, clock=clock)  # the first stage takes 30 s, the next one 60
    begun = []
    for stage in seen.stages():
        begun.append(stage.name)
        train(asked, stage)
        clock.now += 30.0
    assert begun == ["A first look at all head counts"] and asked.next_stage() is not None
    assert "not begun, as it takes about" in seen.not_begun and "are left" in seen.not_begun
    for stage in Countdown(asked, minutes=600.0, clock=clock).stages():
        assert stage.name not in begun
        train(asked, stage)
    assert asked.next_stage() is None


def test_the_time_may_be_up_in_the_middle_of_a_stage(tmp_path, clock):
    seen = Countdown(small_study(tmp_path), minutes=1.0, clock=clock)
    stages = seen.stages()
    stage = next(stages)
    seen.note(advanced(stage, 0.5))
    assert not seen.is_up and seen.seconds_left <= 54
    clock.now += 55.0
    assert seen.is_up and seen.seconds_left == 0
    assert seen.folded == f"– {seen.title}: the time is up; what was trained is kept"
    assert list(stages) == [] and seen.not_begun is None


def test_finished_members_take_no_time(tmp_path, clock):
    asked = small_study(tmp_path)
    stage = asked.next_stage()
    train(asked, type(stage)(stage.name, stage.trials[:1]))
    seen = Countdown(asked, clock=clock)
    next(seen.stages())
    assert 0 < seen.fraction < 1


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), "2", True])
def test_no_time_is_refused_in_one_line(wrong):
    with pytest.raises(InvalidInput, match=r"^--minutes: expected a finite number > 0 and <= "):
        check_minutes("--minutes", wrong)
    assert check_minutes("minutes", None) is None


@given(st.floats(0, 1e6))
def test_a_guessed_time_is_short_and_near(seconds):
    _, number, unit = about(seconds).split()
    said = float(number) * {"s": 1, "min": 60, "h": 3600}[unit]
    assert abs(said - seconds) <= max(5.0, 0.55 * {"s": 5, "min": 60, "h": 360}[unit])
