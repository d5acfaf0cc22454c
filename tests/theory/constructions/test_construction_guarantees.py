"""What a construction says about the assumptions behind it."""

import doctest
from functools import cache
from pathlib import Path

import pytest
from construction_cases import both

from headcount.tasks.library import bowls, bowls_product, max_sum
from headcount.theory.constructions.bound import Bound, Estimate

NORMAL = max_sum(dimension=2, token_dim=2)
FITTED, EXACT = bowls_product(dimension=2, token_dim=1), bowls(dimension=2, token_dim=1)


@cache
def made(make, task):
    return make(task, length=4, epsilon=0.5)


@both
def test_a_domain_and_a_range_that_fail_are_named(make):
    normal, exact = ("\n".join(made(make, task).guarantees) for task in (NORMAL, EXACT))
    assert "domain fails" in normal and "domain: tokens lie in [0,1]^d" in exact
    assert "range fails" in normal and "range: the f_i lie in [0,1]" in exact


@both
def test_what_was_measured_is_not_called_proven(make):
    fitted, exact = ("\n".join(made(make, task).guarantees) for task in (FITTED, EXACT))
    assert "so no bound is proven" in fitted and "assumption 3 unknown" in fitted
    assert "measured" not in exact and "assumption 3: explicit knots" in exact
    assert isinstance(made(make, EXACT).error, Bound)
    assert isinstance(made(make, FITTED).error, Estimate) and made(make, FITTED).error.points > 4096


@pytest.mark.parametrize("page", ["specialise", "memorise"])
def test_the_examples_of_the_documents_run(page):
    path = Path(__file__).parents[3] / "docs" / "theory" / f"{page}.md"
    done = doctest.testfile(str(path), module_relative=False)
    assert done.attempted > 8 and done.failed == 0
