import pytest

from headcount.tasks.library import extremes
from headcount.theory.assumptions.checks import check_assumptions
from headcount.theory.constructions import construction as constructions


@pytest.fixture(scope="session")
def answer():
    return check_assumptions(extremes(), length=4)


@pytest.fixture
def one_answer(monkeypatch, answer):
    """Checking a task takes longer than building for it; what is said about assumptions has its own tests."""
    monkeypatch.setattr(constructions, "check_assumptions", lambda *_, **__: answer)
    constructions.assumptions_of.cache_clear()
    yield
    constructions.assumptions_of.cache_clear()
