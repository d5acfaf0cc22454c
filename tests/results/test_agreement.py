import math

import pytest

from headcount.results.agreement import Figures, differing_figures

SHORT = Figures(300, "nmse", 300, 0.1, 0.2, 0.3, '{"accuracy": 0.5, "tokens": 4.0}')
LONG = SHORT._replace(steps=5_000)
SHARE = LONG._replace(metric="share wrong")


@pytest.mark.parametrize(
    ("one", "changes", "differ"),
    [
        (SHORT, {"test_error": 0.3 * (1 + 9e-4)}, []),
        (SHORT, {"test_error": 0.3 * (1 + 2e-3)}, ["test_error"]),
        (SHORT, {"test_error": 0.3 * (1 + 2e-3), "best_step": 290}, []),
        (LONG, {"test_error": 0.32, "train_error": 0.2}, ["train_error"]),
        (LONG, {"validation_error": math.nan}, ["validation_error"]),
        (LONG, {"scores": '{"accuracy": 0.51, "tokens": 5.0}'}, []),
        (LONG, {"scores": '{"accuracy": 0.6, "tokens": 4.0}'}, ["scores"]),
        (LONG, {"scores": '{"accuracy": 0.5}'}, ["scores"]),
        (LONG, {"scores": '{"accuracy": 0.5, "tokens": 4.0, "early_5_train_error": 0.9}'}, []),
        (LONG, {"scores": "[]"}, ["scores"]),
        (SHARE, {"test_error": 0.32, "train_error": 0.115}, []),
        (LONG._replace(test_error=1e-15), {"test_error": 3e-15}, []),
        (LONG._replace(test_error=math.nan), {"test_error": math.nan}, []),
    ],
)
def test_figures_agree_as_far_as_the_promise_goes(one, changes, differ):
    other = one._replace(**changes)
    assert differing_figures(one, other) == differing_figures(other, one) == differ
