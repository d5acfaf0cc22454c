"""What tests of the constructions share."""

from collections.abc import Iterator
from functools import cache

import pytest

from headcount.tasks.library import extremes
from headcount.theory.assumptions.checks import Assumptions, check_assumptions
from headcount.theory.constructions import construction as constructions


@pytest.fixture
def one_answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Checking a task takes longer than building for it; what is said about assumptions has its own tests."""
    answer = _one_answer()
    monkeypatch.setattr(constructions, "check_assumptions", lambda *_, **__: answer)
    constructions.assumptions_of.cache_clear()
    yield
    constructions.assumptions_of.cache_clear()


@cache
def _one_answer() -> Assumptions:
    return check_assumptions(extremes(), length=4)
