"""Theorem 1: the sequence comes back, the polynomial follows, and what is too large is refused."""

import itertools
import json
import math
import re
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.polynomial import chebyshev
from scipy.special import logsumexp

from headcount.commands.density import density as density_command
from headcount.errors import InvalidInput
from headcount.results.numbers import scientific
from headcount.theory.density.approximate import LOOKS, approximate_target, retrieval_task
from headcount.theory.density.minimax import Basis, Polynomial, exponents, fit, monomials
from headcount.theory.density.recovery import Recovery, set_size
from headcount.theory.search import highest

pytestmark = pytest.mark.usefixtures("compiled_quickly")

SIZES = [(4, 1), (5, 1), (8, 1), (9, 1), (5, 2)]
RECOVERED = {
    size: jax.jit(
        lambda x, sharpness, size=size: Recovery(*size, sharpness)(Recovery(*size, 1.0).extrema_of(x))
    )
    for size in SIZES
}


def approximated(target, **changes):
    return approximate_target(
        target, **({"token_dim": 1, "length": 5, "sharpness": 50.0, "degree": 3} | changes)
    )


@pytest.fixture(scope="module")
def small():
    return approximated(lambda x: jnp.sin(3 * x[0, 0]) * x[4, 0])


def recovered_smoothly(x, sharpness):
    """One coordinate, by the definitions, with log-sum-exps."""
    length = len(x)
    sets = list(itertools.combinations(range(length), set_size(length)))

    def soft_maximum(values):
        return logsumexp(sharpness * np.array(values)) / sharpness

    b = soft_maximum([min(x[list(U)]) for U in sets])
    entries = []
    for t in range(length):
        Y = soft_maximum([min(x[list(U)]) for U in sets if t in U])
        Z = -soft_maximum([-max(x[list(U)]) for U in sets if t in U])
        entry = Y + soft_maximum([Z - b, 0.0])
        entries.append(soft_maximum([entry, 0.0]) - soft_maximum([entry - 1, 0.0]))
    return np.array(entries)


def polynomial_term_by_term(polynomial, u):
    left, right = polynomial.basis.halves
    total = 0.0
    for row, column in zip(*polynomial.basis.pairs, strict=True):
        term = polynomial.coefficients[row, column]
        for entry, power in zip(u, [*left[row], *right[column]], strict=True):
            unit = np.eye(power + 1)[power]
            term *= chebyshev.chebval(2 * entry - 1, unit) * (math.sqrt(2) if power else 1.0)
        total += term
    return total


@settings(max_examples=60)
@given(data=st.data(), size=st.sampled_from(SIZES), sharpness=st.sampled_from([0.5, 10.0, 1e3, 1e6]))
def test_smooth_extrema_stay_within_the_bound_and_the_cube(data, size, sharpness):
    entries = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0, 1, allow_subnormal=False)
    x = data.draw(arrays(np.float64, size, elements=entries))
    with jax.enable_x64(True):
        recovered = np.asarray(RECOVERED[size](x, sharpness))
    bound = math.log(math.comb(size[0], set_size(size[0])) + 1) / sharpness
    assert Recovery(*size, sharpness).bound == pytest.approx(bound)
    assert np.abs(recovered - x).max() <= bound * (1 + 1e-9)
    assert recovered.min() >= 0 and recovered.max() <= 1


def test_the_task_is_a_retrieval_target_by_definition(small):
    task = small.task
    assert small.dimension == task.dimension == len(task.coordinate_functions) == 20
    assert all(4 * len(positions.indices(5)) >= 5 for positions in task.positions)
    assert len(set(zip(task.positions, task.extrema, strict=True))) == 20
    assert task.distribution == "uniform"


def test_all_retrievals_at_once_are_those_of_the_task():
    basis = Basis(variables=10, degree=1)
    recovery = Recovery(length=5, token_dim=2, sharpness=1.0)
    task = retrieval_task(recovery, Polynomial(basis, np.zeros(basis.shape)))
    x = np.random.default_rng(0).uniform(size=(5, 2))
    with jax.enable_x64(True):
        one_by_one = jax.jit(task.coordinates)(x)
        at_once = recovery.extrema_of(jnp.asarray(x))
    np.testing.assert_array_equal(one_by_one, at_once)


def test_the_target_of_the_task_agrees_with_a_plain_reference(small):
    batch = np.random.default_rng(1).uniform(size=(4, 5, 1))
    with jax.enable_x64(True):
        y = np.asarray(jax.jit(small.task.target)(batch))
    plain = [
        polynomial_term_by_term(small.polynomial, recovered_smoothly(x[:, 0], small.recovery.sharpness))
        for x in batch
    ]
    np.testing.assert_allclose(y[:, 0], plain, rtol=0, atol=1e-12)


def test_the_task_works_in_single_precision_too(small):
    x = small.task.inputs(jax.random.key(0), count=3, length=5)
    y = jax.jit(small.task.target)(x)
    with jax.enable_x64(True):
        exact = jax.jit(small.task.target)(np.asarray(x, np.float64))
    assert y.dtype == jnp.float32
    np.testing.assert_allclose(y, exact, atol=1e-4)


def test_the_error_falls_with_the_sharpness_and_with_the_degree(small):
    for high in (small, approximated(lambda x: jnp.abs(x[0, 0] - x[1, 0]))):
        assert high.measured_error() < 0.7 * approximated(high.target, degree=1).measured_error()
        assert high.measured_error() < 0.7 * high.sharpened(5.0).measured_error()


def test_the_worst_input_is_in_the_cube_and_shows_the_error(small):
    x = small.worst.point
    assert x.shape == (5, 1) and x.min() >= 0 and x.max() <= 1
    with jax.enable_x64(True):
        off = abs(float(jax.jit(small.task.target)(x)[0]) - float(small.target(x)))
    assert small.measured_error() == pytest.approx(off, abs=1e-12)


@pytest.mark.parametrize("seed", [2, 7], ids=["the random points of the search", "others"])
def test_no_error_at_4000_random_points_is_above_the_largest(small, seed):
    random = np.random.default_rng(seed).uniform(size=(LOOKS, 5, 1))
    with jax.enable_x64(True):
        anywhere = np.abs(jax.jit(small.task.target)(random)[:, 0] - jax.vmap(small.target)(random))
    assert LOOKS == 4_000
    assert small.measured_error() >= anywhere.max() - 1e-14  # two programs round differently


def test_a_peak_that_only_a_random_point_lies_on_is_climbed():
    peak = np.array([0.31, 0.77])

    def function(x):
        return jnp.maximum(1 - 20 * jnp.linalg.norm(x - peak), 0.0)

    starts, looks = np.zeros((3, 2)), np.random.default_rng(0).uniform(size=(2_000, 2))
    assert highest(function, starts).value == 0
    found = highest(function, starts, looks=looks)
    assert found.value >= max(0.99, 1 - 20 * np.linalg.norm(looks - peak, axis=1).min())


def test_the_search_for_the_recovery_error_finds_the_bound(small):
    assert 0.95 * small.recovery_bound <= small.recovery_error() <= small.recovery_bound * (1 + 1e-9)


def test_the_same_seed_gives_the_same_result(small):
    again = approximated(small.target)
    np.testing.assert_array_equal(small.polynomial.coefficients, again.polynomial.coefficients)
    assert small.measured_error() == again.measured_error()


@pytest.mark.parametrize(("variables", "degree"), [(1, 3), (4, 3)])
def test_a_polynomial_is_fitted_exactly(variables, degree):
    powers = exponents(variables, degree)
    assert len(np.unique(powers, axis=0)) == len(powers) and powers.sum(axis=1).max() == degree
    count = monomials(variables=variables, degree=degree)
    assert len(powers) == count == len(Basis(variables, degree).pairs[0])
    weights = np.random.default_rng(0).normal(size=(degree, variables))

    def function(u):
        return jnp.prod(1 + jnp.asarray(weights, u.dtype) @ u)

    fitted = fit(function, variables=variables, degree=degree, seed=0)
    points = np.random.default_rng(1).uniform(size=(50, variables))
    with jax.enable_x64(True):
        np.testing.assert_allclose(jax.vmap(fitted)(points), jax.vmap(function)(points), atol=1e-8)


def test_the_fit_is_nearly_the_best_possible():
    """Chebyshev: of all cubics, the nearest to x^4 on an interval of length 1 is off by 2 / 4^4."""
    fitted = fit(lambda u: u[0] ** 4, variables=1, degree=3, seed=0)
    off = highest(lambda u: jnp.abs(fitted(u) - u[0] ** 4), np.linspace(0, 1, 50)[:, None]).value
    assert 1 / 128 * 0.999 <= off <= 1 / 128 * 1.25


WEIGHTS = np.linspace(0, 1, 8)


def never(x):
    raise AssertionError("the target was looked at")


@pytest.mark.parametrize(
    ("target", "change", "line"),
    [
        (never, {"length": 3}, "length: expected an integer >= 4"),
        (
            never,
            {"length": 14},
            "length: expected an integer <= 13 at token_dim 1, got 14, which needs 2,002",
        ),
        (never, {"length": 10**12}, "<= 13 .* more than 2.500000000000 retrievals"),
        (never, {"token_dim": 251}, "token_dim: expected an integer <= 250, got 251, which needs 2,008"),
        (never, {"degree": 7}, "degree: expected an integer <= 6 for 8 numbers, got 7, which needs 6,435"),
        (never, {"degree": 10**9}, "<= 6 for 8 numbers, .* about 1e67 monomials"),
        (never, {"sharpness": math.inf}, "sharpness: expected"),
        (never, {"seed": -1}, "seed: expected"),
        (lambda x: x, {}, r"target: expected one real number .* got the shape \(8, 1\)"),
        (lambda x: 1j * x[0, 0], {}, "type complex128"),
        (lambda x: "much", {}, "target cannot be applied"),
        (lambda x: WEIGHTS @ x[:, 0], {}, r"target: expected constants in the precision of its input"),
        (lambda x: jnp.log(x[0, 0]), {}, "target: expected a finite number .* got -inf at x = "),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(target, change, line):
    with pytest.raises(InvalidInput, match=line) as refusal:
        approximate_target(target, **{"token_dim": 1, "length": 8, "degree": 2} | change)
    assert "\n" not in str(refusal.value)


@dataclass
class Unhashable:
    weights: np.ndarray
    places: np.ndarray

    def __call__(self, x):
        return jnp.asarray(self.weights, x.dtype) @ x[self.places, 0]


def test_a_target_may_hold_arrays_in_the_precision_of_its_input():
    target = Unhashable(np.array([1.0, 2.0]), np.array([3, 1]))
    polynomial = approximate_target(target, token_dim=1, length=4, degree=1).polynomial
    with jax.enable_x64(True):
        assert float(polynomial(jnp.array([0.1, 0.2, 0.3, 0.4]))) == pytest.approx(0.8, abs=1e-10)


def test_the_command_prints_json_or_a_table_that_fits(capsys):
    density_command("x[0,0]", length=5, sharpness=100.0, degree=1, as_json=True)
    summary = json.loads(capsys.readouterr().out)
    errors = {row["sharpness"]: row["error"] for row in summary["errors"]}
    assert (summary["dimension"], summary["monomials"]) == (20, 6)
    assert errors[1] > errors[10] > errors[100] > errors[None]
    assert errors[100] <= summary["recovery_bound"] + errors[None] + 1e-12

    density_command("x[0,0]", length=5, sharpness=100.0, degree=1)
    out, err = capsys.readouterr()
    assert "D = 20 retrievals, from all sets of 2 of 5 positions" in out
    assert "6 monomials of degree 1 or less" in out
    assert re.search(rf"sharpness 100 +{scientific(errors[100])}", out)
    assert max(len(line) for line in out.splitlines()) <= 80
    assert err == ""
