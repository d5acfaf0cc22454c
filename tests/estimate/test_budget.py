"""What is told after less training than usual, and that it is marked."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from small_study import SMALL, small_study, train, train_all
from test_curve import sweep

from headcount.estimate.budget import Budget
from headcount.estimate.evidence import adjust_for_budget, estimate_of
from headcount.estimate.members import MemberRecipe, Stage
from headcount.estimate.verdict import decide

pytestmark = pytest.mark.usefixtures("compiled_quickly")

BRIEF = Budget(minutes=5.0, steps=8_000, usual_steps=8_000, not_begun="a stage", complete=False)
QUICK = Budget(quick=True, steps=2_000, usual_steps=8_000, complete=False)
THREE = decide(sweep(3, heads=range(1, 7)))


class Trained:
    """A study whose sweep has 1 to 5 heads, with this left to train."""

    def __init__(self, left=(), *, short=False, has_sweep=True):
        self.short, self.has_sweep = short, has_sweep
        self.deciding = tuple(Member(heads) for heads in range(1, 6))
        self._left = tuple(left)

    def next_stage(self):
        return Stage("next", (*self.deciding, *self._left)) if self._left else None

    def quick_sweep(self):
        return Stage("quick", self.deciding)


class Member:
    """A trial as far as a budget looks at it."""

    def __init__(self, heads):
        self.architecture = SimpleNamespace(heads=heads)
        self.training = SimpleNamespace(steps=800)


def adjusted(budget, study, early=THREE):
    return adjust_for_budget(replace(THREE, budget=budget), study, early)


def test_the_usual_training_is_not_marked():
    for budget in (None, Budget(minutes=60.0, steps=8_000, usual_steps=8_000)):
        found = adjusted(budget, Trained())
        assert found.sentence == THREE.sentence and "95% interval" in found.sentence


def test_a_quick_estimate_says_so_and_claims_no_share_of_95():
    found = adjusted(QUICK, Trained(short=True))
    assert found.dimension == 3 and found.interval == THREE.interval
    assert "95%" not in found.sentence and "uncalibrated interval" in found.sentence
    assert found.sentence.endswith("Trained quickly: 2,000 of 8,000 steps.")
    assert found.to_json()["budget"]["quick"] is True


def test_a_dimension_that_changes_with_the_steps_is_not_told():
    early = replace(THREE, probabilities={3: 0.2, 4: 0.8})
    found = adjusted(QUICK, Trained(short=True), early)
    assert (found.dimension, found.verdict) == (None, "cannot tell")
    assert "D seemed 4 after 800 steps and 3 after 2,000" in found.sentence


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        ([Member(4)], None),  # other starts of heads that D does not rest on
        ([Member(2)], "the time was up before 2 heads had been tried from other starts"),
        ([Member(6)], "the time was up before 6 heads had been trained"),
    ],
)
def test_what_d_rests_on_must_be_trained(left, reason):
    found = adjusted(BRIEF, Trained(left))
    assert (found.dimension is None) == (reason is not None)
    assert (reason or "the time was up before this stage: a stage.") in found.sentence.replace("The", "the")


def test_a_first_look_alone_is_a_guess():
    found = adjusted(replace(BRIEF, steps=800), Trained([Member(1)], has_sweep=False))
    assert found.dimension is None and "which alone is a guess: D = 3" in found.sentence


def test_out_of_time_a_study_answers_from_what_there_is_and_goes_on_from_it(tmp_path):
    asked = small_study(tmp_path)
    nothing = estimate_of(asked, minutes=1.0)
    assert nothing.verdict == "cannot tell" and "before all head counts had a first look" in nothing.sentence
    assert nothing.budget.not_begun == "A first look at all head counts" and nothing.to_json()["curve"] == []
    train(asked, asked.next_stage())
    looked = estimate_of(asked, minutes=1.0)
    assert looked.verdict == "cannot tell" and [point.heads for point in looked.errors] == [1, 2, 3]
    assert looked.budget.steps == asked.recipe.quick().steps and not looked.budget.complete
    before = set(asked.frame()["trial"])
    train_all(asked)
    found, rows = estimate_of(asked, minutes=1.0), asked.frame()
    assert found.budget.complete and found.budget.not_begun is None
    assert before < set(rows["trial"]) and rows["trial"].is_unique
    assert estimate_of(asked) == replace(found, budget=None)


def test_a_quick_study_shares_its_first_look_with_a_full_one(tmp_path):
    recipe = replace(SMALL, steps=2_000)
    quick, full = (small_study(tmp_path, recipe=recipe, short=short) for short in (True, False))
    while quick.next_stage().number < quick.number("closer look"):
        train(quick, quick.next_stage())
    assert quick.next_stage().number == full.next_stage().number
    for each, steps in ((quick, 500), (full, 2_000)):
        assert {trial.training.steps for trial in each.next_stage().trials} == {steps}


def test_a_shortened_recipe_keeps_another_start_for_what_got_stuck():
    short = MemberRecipe().shortened()
    assert (short.steps, len(short.starts), len(short.again().starts)) == (2_000, 1, 1)
    assert short.again().steps == 4_000
