"""When two rows of one trial agree.

The same trial in another pack gives the same numbers to float tolerance over its first few hundred steps, and
after that the same distribution of log error: rounding differs, and training magnifies it. Measured are
relative differences of 1e-6 to 1e-4 after a few hundred steps, and of 1 to 4% after thousands at a high rate.
So two rows agree when

- `train_error`, `validation_error` and `test_error` differ by no more than `SHORT_TOLERANCE` of the larger
  after at most `SHORT_RUN` steps, and by no more than `LONG_TOLERANCE` after more. Differences below `FLOOR`
  are rounding whatever the error is. NaN agrees with NaN alone.
- `best_step` may differ: of two evaluations that are nearly equal, rounding decides which is the best. The
  errors then belong to two states, and are compared as after a long run.
- shares of samples (the metric "share wrong", and everything in `scores`) may also differ by `SHARE`, since a
  sample at the border counts wholly or not at all, and counts in `scores` by 1.
- `device`, `versions` and `seconds` say where and when a trial was trained, and may differ.
- what was measured early in a training (`early_...` in `scores`) is compared where both rows have it: rows of
  an earlier version do not. The sketch of a member's answers is not compared: rounding grows in it too.
- everything else, `status` too, is equal.
"""

import json
from collections.abc import Mapping
from math import isclose, isnan
from typing import Any, NamedTuple

from headcount.results.shards import SCHEMA

SHORT_RUN = 300
SHORT_TOLERANCE = 1e-3
LONG_TOLERANCE = 0.1
FLOOR = 1e-12  # of float32 outputs of size 1, the squared rounding is about 1e-14
SHARE = 0.02
SKETCH = "sketch_"
ADDED = ("early_", SKETCH)  # scores that rows of an earlier version have not got

CIRCUMSTANCES = ("seconds", "device", "versions")
RESULTS = tuple(name for name in SCHEMA.names if name not in CIRCUMSTANCES)


class Figures(NamedTuple):
    """What is compared with a tolerance, and what the tolerance depends on."""

    steps: int
    metric: str
    best_step: int
    train_error: float
    validation_error: float
    test_error: float
    scores: str


# What must be equal. `steps` and `metric` are among them.
FIXED = tuple(name for name in RESULTS if name not in Figures._fields[2:])


def differing(one: Mapping[str, Any], other: Mapping[str, Any], *, strict: bool) -> list[str]:
    """The columns in which two rows disagree; with `strict`, to the last digit."""
    fixed = [name for name in (RESULTS if strict else FIXED) if repr(one[name]) != repr(other[name])]
    figures = (Figures(*(row[name] for name in Figures._fields)) for row in (one, other))
    return fixed if strict else fixed + differing_figures(*figures)


def differing_figures(one: Figures, other: Figures) -> list[str]:
    """The figures that differ by more than the promise of the same trial in another pack.

    >>> one = Figures(100, "nmse", 90, 0.1, 0.0568570009, 0.1, "{}")
    >>> differing_figures(one, one._replace(validation_error=0.0568569984, best_step=80))
    []
    >>> differing_figures(one, one._replace(validation_error=0.06))
    ['validation_error']
    """
    short = one.steps <= SHORT_RUN and one.best_step == other.best_step
    tolerance = SHORT_TOLERANCE if short else LONG_TOLERANCE
    floor = SHARE if one.metric == "share wrong" else FLOOR
    found = [
        name
        for name in ("train_error", "validation_error", "test_error")
        if not _close(getattr(one, name), getattr(other, name), tolerance, floor)
    ]
    return found if _same_scores(one.scores, other.scores) else [*found, "scores"]


def _close(one: float, other: float, tolerance: float, floor: float) -> bool:
    return isclose(one, other, rel_tol=tolerance, abs_tol=floor) or (isnan(one) and isnan(other))


def _same_scores(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        here, there = json.loads(one), json.loads(other)
        alone = [name for name in here.keys() ^ there.keys() if not name.startswith(ADDED)]
        both = [name for name in here.keys() & there.keys() if SKETCH not in name]
        return not alone and all(_same_score(here[name], there[name]) for name in both)
    except (ValueError, TypeError, AttributeError):  # not the scores that a run writes
        return False


def _same_score(one: float, other: float) -> bool:
    counts = float(one).is_integer() and float(other).is_integer() and max(abs(one), abs(other)) > 1
    return _close(one, other, LONG_TOLERANCE, 1 if counts else SHARE)
