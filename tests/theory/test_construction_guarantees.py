"""What a construction says about the assumptions behind it."""

import doctest
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from headcount.tasks.library import bowls, bowls_product, max_sum
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.construction import Construction
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.specialise import specialise

Maker = Callable[..., Construction]

both = pytest.mark.parametrize("make", [specialise, memorise])
NORMAL = max_sum(dimension=2, token_dim=2)
FITTED, EXACT = bowls_product(dimension=2, token_dim=1), bowls(dimension=2, token_dim=1)


@cache
def made(make: Maker, task: RetrievalTask) -> Construction:
    return make(task, length=4, epsilon=0.5)


def told(make: Maker, task: RetrievalTask) -> str:
    return "\n".join(made(make, task).guarantees)


@both
def test_the_domain_is_named_where_tokens_leave_it(make: Maker) -> None:
    assert "domain fails" in told(make, NORMAL)
    assert "domain: tokens lie in [0,1]^d" in told(make, EXACT)


@both
def test_a_range_that_is_rescaled_is_named(make: Maker) -> None:
    assert "range fails" in told(make, NORMAL)
    assert "range: the f_i lie in [0,1]" in told(make, EXACT)


@both
def test_what_was_measured_is_not_called_proven(make: Maker) -> None:
    assert "measured, not proven" in told(make, FITTED) and "assumption 3 unknown" in told(make, FITTED)
    assert "measured" not in told(make, EXACT) and "assumption 3: explicit knots" in told(make, EXACT)
    assert not made(make, FITTED).bound.proven
    assert made(make, EXACT).bound.proven


@pytest.mark.parametrize("page", ["specialise", "memorise"])
def test_the_examples_of_the_documents_run(page: str) -> None:
    path = Path(__file__).parents[2] / "docs" / "theory" / f"{page}.md"
    done = doctest.testfile(str(path), module_relative=False)
    assert done.attempted > 8 and done.failed == 0
