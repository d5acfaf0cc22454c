from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from headcount.errors import InvalidInput
from headcount.tasks.coordinates import Bowl
from headcount.tasks.library import bowls, extremes, max_sum
from headcount.tasks.positions import Positions
from headcount.tasks.registry import build
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.assumptions.checks import check_assumptions

pytestmark = pytest.mark.usefixtures("compiled_quickly")

LENGTH = 16
ABOUT_THE_MINIMA = (
    "unique minimiser",
    "distinct minimisers",
    "positive definite Hessian",
    "non-zero partial derivatives",
)


def one(function: Callable[[Array], Array], **changes: Any) -> RetrievalTask:
    parts: dict[str, Any] = {"token_dim": 1, "coordinate_functions": (function,), "outer": jnp.sum}
    return RetrievalTask(**({"name": "one"} | parts | changes))


@pytest.mark.parametrize(
    "name", ["bowls", "bowls_product", "bowls_ratio", "bowls_soft_maximum", "bowls_several"]
)
def test_bowls_meet_every_assumption_that_can_be_measured(name: str) -> None:
    found = check_assumptions(build(name, dimension=2, token_dim=1), length=LENGTH)
    assert found.holds("2")
    assert all(found.holds(clause) for clause in ("domain", "range", "position sets"))
    assert found.verdict("smoothness") == found.verdict("1") == found.verdict("3") == "unknown"


def test_the_minimisers_and_eigenvalues_of_bowls_are_the_known_ones() -> None:
    wells = [[0.25, 0.5], [0.75, 0.125]]
    found = check_assumptions(bowls(dimension=2, token_dim=2, wells=wells), length=LENGTH)
    (unique,), (hessian,) = found.select("unique minimiser"), found.select("positive definite Hessian")
    np.testing.assert_allclose(np.asarray(unique.numbers["minimisers"]), wells, atol=1e-6)
    curvatures = [2 / (0.75**2 + 0.5**2), 2 / (0.75**2 + 0.875**2)]
    np.testing.assert_allclose(np.asarray(hessian.numbers["eigenvalues"])[:, 0], curvatures, rtol=1e-9)


def test_max_sum_is_outside_the_theory_and_says_why() -> None:
    found = check_assumptions(max_sum(), length=LENGTH)
    assert {f.clause for f in found.findings if f.verdict == "fails"} == {
        "domain",
        "range",
        "positive definite Hessian",
    }
    assert "normal tokens leave" in found.select("domain")[0].reason
    assert "eigenvalue is 0, of f 0, whose minimiser is on the boundary" in str(found)
    assert found.verdict("2") == "fails"


def test_axis_directions_have_a_whole_face_of_minimisers() -> None:
    found = check_assumptions(max_sum(dimension=2, token_dim=2, directions="orthonormal"), length=LENGTH)
    assert found.verdict("unique minimiser") == "fails"
    assert found.verdict("distinct minimisers") == "unknown"


def test_wells_that_coincide_are_not_distinct() -> None:
    found = check_assumptions(bowls(dimension=2, token_dim=1, wells=[[0.5], [0.5]]), length=LENGTH)
    assert [f.clause for f in found.findings if f.verdict == "fails"] == ["distinct minimisers"]


@pytest.mark.parametrize(
    ("clause", "task"),
    [
        ("unique minimiser", one(lambda x: 16 * ((x[0] - 0.25) * (x[0] - 0.75)) ** 2)),
        ("unique minimiser", one(lambda x: 0.5 + 0 * x[0])),
        ("positive definite Hessian", one(lambda x: (x[0] - 0.5) ** 4)),
        ("non-zero partial derivatives", one(Bowl((0.5,)), outer=lambda z: jnp.sum(z**2))),
        ("smoothness", one(lambda x: jnp.abs(x[0] - 0.3))),
        ("smoothness", one(lambda x: 0.5 + (x[0] - 0.3) * jnp.abs(x[0] - 0.3))),
        ("smoothness", one(lambda x: jnp.floor(3 * x[0]) / 3)),
        ("smoothness", one(Bowl((0.3,)), outer=lambda z: jnp.maximum(z[0], 0.5))),
        ("range", one(lambda x: 1.1 * x[0] ** 2)),
        ("range", one(lambda x: jnp.log(x[0]))),
        ("range", one(lambda x: 1 / (x[0] - x[0]))),
        ("position sets", one(Bowl((0.5,)), positions=(Positions([0, 1, 2]),))),
    ],
)
def test_a_clause_that_is_broken_fails(clause: str, task: RetrievalTask) -> None:
    assert check_assumptions(task, length=LENGTH).verdict(clause) == "fails"


def test_a_steep_but_smooth_function_is_not_called_a_kink() -> None:
    found = check_assumptions(one(lambda x: jax.nn.sigmoid(200 * (x[0] - 0.4))), length=LENGTH)
    assert found.verdict("smoothness") == "unknown"


def test_a_curvature_too_small_to_tell_stays_unknown() -> None:
    found = check_assumptions(one(lambda x: 5e-5 * (x[0] - 0.5) ** 2 + (x[0] - 0.5) ** 4), length=LENGTH)
    assert found.verdict("positive definite Hessian") == "unknown"
    assert found.verdict("2") == "unknown"


def test_a_max_is_judged_as_the_min_of_one_minus_f() -> None:
    bowl = Bowl((0.25,))
    upward, downward = one(bowl), one(lambda x: 1 - bowl(x), extrema=("max",), outer=lambda z: 1 - z[0])
    first, second = check_assumptions(upward, length=LENGTH), check_assumptions(downward, length=LENGTH)
    assert [f.verdict for f in first.findings] == [f.verdict for f in second.findings]
    assert first.holds("2")


def test_a_table_names_every_clause_and_a_question_must_name_one() -> None:
    found = check_assumptions(one(Bowl((0.5,))), length=LENGTH)
    assert str(found).count("\n") == 1 + len(found.findings)
    assert all(clause in str(found) for clause in ABOUT_THE_MINIMA)
    assert tuple(finding.clause for finding in found.select("2")) == ABOUT_THE_MINIMA
    with pytest.raises(InvalidInput, match="assumption '4' is not known: use one of definition, domain"):
        found.holds("4")


def test_a_check_leaves_the_precision_as_it_was_and_repeats_itself() -> None:
    task = one(Bowl((0.5,)))
    first = check_assumptions(task, length=LENGTH, seed=3)
    assert jnp.ones(1).dtype == jnp.float32
    assert first == check_assumptions(task, length=LENGTH, seed=3)


def test_a_length_without_positions_is_refused() -> None:
    with pytest.raises(InvalidInput, match="positions: expected at least one at length 1, got none"):
        check_assumptions(extremes(positions="odd"), length=1)
