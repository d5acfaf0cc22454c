"""What a construction says about the assumptions behind it."""

import doctest
from functools import cache
from pathlib import Path

import pytest
from constructing import Maker, both

from headcount.tasks.library import bowls, bowls_product, max_sum
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.constructions.construction import Construction

NORMAL = max_sum(dimension=2, token_dim=2)
FITTED, EXACT = bowls_product(dimension=2, token_dim=1), bowls(dimension=2, token_dim=1)


@cache
def made(make: Maker, task: RetrievalTask) -> Construction:
    return make(task, length=4, epsilon=0.5)


def guarantees(make: Maker, task: RetrievalTask) -> str:
    return "\n".join(made(make, task).guarantees)


@both
def test_a_domain_and_a_range_that_fail_are_named(make: Maker) -> None:
    assert "domain fails" in guarantees(make, NORMAL)
    assert "domain: tokens lie in [0,1]^d" in guarantees(make, EXACT)
    assert "range fails" in guarantees(make, NORMAL)
    assert "range: the f_i lie in [0,1]" in guarantees(make, EXACT)


@both
def test_what_was_measured_is_not_called_proven(make: Maker) -> None:
    fitted, exact = guarantees(make, FITTED), guarantees(make, EXACT)
    assert "measured, not proven" in fitted and "assumption 3 unknown" in fitted
    assert "measured" not in exact and "assumption 3: explicit knots" in exact
    assert not made(make, FITTED).bound.proven
    assert made(make, EXACT).bound.proven


@pytest.mark.parametrize("page", ["specialise", "memorise"])
def test_the_examples_of_the_documents_run(page: str) -> None:
    path = Path(__file__).parents[3] / "docs" / "theory" / f"{page}.md"
    done = doctest.testfile(str(path), module_relative=False)
    assert done.attempted > 8 and done.failed == 0
