import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.tasks.library import Bowl, bowls, extremes, max_sum
from headcount.tasks.registry import build
from headcount.tasks.retrieval import Positions, RetrievalTask
from headcount.theory.assumptions.checks import check_assumptions

pytestmark = pytest.mark.usefixtures("compiled_quickly")

LENGTH = 16
ABOUT_THE_MINIMA = (
    "unique minimiser",
    "distinct minimisers",
    "positive definite Hessian",
    "non-zero partial derivatives",
)


def one(function, **changes):
    parts = {"name": "one", "token_dim": 1, "coordinate_functions": (function,), "outer": jnp.sum}
    return RetrievalTask(**(parts | changes))


@pytest.mark.parametrize("outer", ["", "_product", "_ratio", "_soft_maximum", "_several"])
def test_bowls_meet_every_assumption_that_can_be_measured(outer):
    found = check_assumptions(build(f"bowls{outer}", dimension=2, token_dim=1), length=LENGTH)
    assert all(found.holds(clause) for clause in ("2", "domain", "range", "position sets"))
    assert found.verdict("smoothness") == found.verdict("1") == found.verdict("3") == "unknown"


def test_the_minimisers_and_eigenvalues_of_bowls_are_the_known_ones():
    wells = [[0.25, 0.5], [0.75, 0.125]]
    found = check_assumptions(bowls(dimension=2, token_dim=2, wells=wells), length=LENGTH)
    (unique,), (hessian,) = found.select("unique minimiser"), found.select("positive definite Hessian")
    np.testing.assert_allclose(np.asarray(unique.numbers["minimisers"]), wells, atol=1e-6)
    curvatures = [2 / (0.75**2 + 0.5**2), 2 / (0.75**2 + 0.875**2)]
    np.testing.assert_allclose(np.asarray(hessian.numbers["eigenvalues"])[:, 0], curvatures, rtol=1e-9)


def test_max_sum_is_outside_the_theory_and_says_why():
    found = check_assumptions(max_sum(), length=LENGTH)
    failing = {finding.clause for finding in found.findings if finding.verdict == "fails"}
    assert failing == {"domain", "range", "positive definite Hessian"}
    assert "normal tokens leave" in found.select("domain")[0].reason
    assert "eigenvalue is 0, of f 0, whose minimiser is on the boundary" in str(found)
    assert found.verdict("2") == "fails"


@pytest.mark.parametrize(
    ("clause", "verdict", "task"),
    [
        ("unique minimiser", "fails", one(lambda x: 16 * ((x[0] - 0.25) * (x[0] - 0.75)) ** 2)),
        ("unique minimiser", "fails", one(lambda x: 0.5 + 0 * x[0])),
        # A whole face of minimisers.
        ("unique minimiser", "fails", max_sum(dimension=2, token_dim=2, directions="orthonormal")),
        ("distinct minimisers", "unknown", max_sum(dimension=2, token_dim=2, directions="orthonormal")),
        ("distinct minimisers", "fails", bowls(dimension=2, token_dim=1, wells=[[0.5], [0.5]])),
        ("positive definite Hessian", "fails", one(lambda x: (x[0] - 0.5) ** 4)),
        # A curvature too small to measure.
        ("positive definite Hessian", "unknown", one(lambda x: 5e-5 * (x[0] - 0.5) ** 2 + (x[0] - 0.5) ** 4)),
        ("non-zero partial derivatives", "fails", one(Bowl((0.5,)), outer=lambda z: jnp.sum(z**2))),
        ("smoothness", "fails", one(lambda x: jnp.abs(x[0] - 0.3))),
        ("smoothness", "fails", one(lambda x: 0.5 + (x[0] - 0.3) * jnp.abs(x[0] - 0.3))),
        ("smoothness", "fails", one(lambda x: jnp.floor(3 * x[0]) / 3)),
        ("smoothness", "fails", one(Bowl((0.3,)), outer=lambda z: jnp.maximum(z[0], 0.5))),
        ("smoothness", "unknown", one(lambda x: jax.nn.sigmoid(200 * (x[0] - 0.4)))),  # steep, not a kink
        ("range", "fails", one(lambda x: 1.1 * x[0] ** 2)),
        ("range", "fails", one(lambda x: jnp.log(x[0]))),
        ("range", "fails", one(lambda x: 1 / (x[0] - x[0]))),
        ("position sets", "fails", one(Bowl((0.5,)), positions=(Positions([0, 1, 2]),))),
    ],
)
def test_a_clause_fails_where_it_is_broken_and_only_there(clause, verdict, task):
    assert check_assumptions(task, length=LENGTH).verdict(clause) == verdict


def test_a_max_is_judged_as_the_min_of_one_minus_f():
    bowl = Bowl((0.25,))
    upward, downward = one(bowl), one(lambda x: 1 - bowl(x), extrema=("max",), outer=lambda z: 1 - z[0])
    first, second = check_assumptions(upward, length=LENGTH), check_assumptions(downward, length=LENGTH)
    assert [f.verdict for f in first.findings] == [f.verdict for f in second.findings]
    assert first.holds("2")


def test_a_table_names_every_clause_and_a_check_repeats_itself_and_leaves_the_precision():
    found = check_assumptions(one(Bowl((0.5,))), length=LENGTH, seed=3)
    assert str(found).count("\n") == 1 + len(found.findings)
    assert all(clause in str(found) for clause in ABOUT_THE_MINIMA)
    assert tuple(finding.clause for finding in found.select("2")) == ABOUT_THE_MINIMA
    assert found == check_assumptions(one(Bowl((0.5,))), length=LENGTH, seed=3)
    assert jnp.ones(1).dtype == jnp.float32


def test_an_unknown_clause_and_a_length_without_positions_are_refused():
    with pytest.raises(InvalidInput, match=r"assumption: expected one of definition, domain, .* got '4'"):
        check_assumptions(one(Bowl((0.5,))), length=LENGTH).holds("4")
    with pytest.raises(InvalidInput, match="positions: expected at least one at length 1, got none"):
        check_assumptions(extremes(positions="odd"), length=1)
