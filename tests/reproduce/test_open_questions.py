"""What the open items conclude from invented errors."""

import pytest
from reproduce.invented import as_the_theory_says, invented_frame

from headcount.reproduce.item import ITEMS
from headcount.reproduce.recipe import QUICK


def growing_everywhere(trial):
    return as_the_theory_says(trial) * trial.length


def verdicts(name, error):
    item = ITEMS[name]
    found = item.judge(item.rows(invented_frame(item.trials(QUICK), error), QUICK))
    return [verdict for verdict in found if "with T" in verdict.claim]


@pytest.mark.parametrize("name", ["bounded", "layer_norm"])
def test_growth_is_judged_by_which_side_of_the_dimension_it_is_on(name):
    for verdict in verdicts(name, growing_everywhere):
        assert verdict.holds is ("does not grow" not in verdict.claim), verdict
    for verdict in verdicts(name, as_the_theory_says):
        assert verdict.holds is (None if "does not grow" in verdict.claim else True), verdict


def test_a_transition_elsewhere_is_not_the_one_at_the_dimension():
    item = ITEMS["layer_norm"]

    def one_head_later(trial):
        return 1e-2 if trial.architecture.heads * trial.architecture.layers <= 3 else 1e-7

    found = item.judge(item.rows(invented_frame(item.trials(QUICK), one_head_later), QUICK))
    falls = {verdict.claim: verdict.holds for verdict in found if "falls most" in verdict.claim}
    assert [holds for claim, holds in falls.items() if "L = 1" in claim] == [False, False]
    assert [holds for claim, holds in falls.items() if "L = 2" in claim] == [True, True]
