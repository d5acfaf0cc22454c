"""The rounding term: measured error <= bound in float64, with no tolerance of a test's own."""

from dataclasses import replace

import numpy as np
import pytest
from construction_cases import distance, own
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InvalidInput
from headcount.tasks.library import Projection, bowls, max_sum
from headcount.theory.constructions.bound import ROUNDING
from headcount.theory.constructions.memorise import memorise
from headcount.theory.constructions.rounding import UNIT, growth
from headcount.theory.constructions.specialise import specialise

pytestmark = pytest.mark.usefixtures("compiled_quickly", "one_answer")


@st.composite
def constructions(draw):
    """A proven construction: any kind, shape, length, sets of positions and error."""
    dimension, token_dim = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    length = draw(st.integers(1, 5))
    sizes = {"dimension": dimension, "token_dim": token_dim, "positions": draw(st.sampled_from(["all", [0]]))}
    task = draw(st.sampled_from([max_sum, bowls]))
    apart = {"smallest_angle": 0.0} if task is max_sum else {"smallest_distance": 0.05}
    task = replace(task(**sizes, **apart, seed=draw(st.integers(0, 99))), distribution="uniform")
    kind = draw(st.sampled_from(["one layer", "two layers", "memorise"]))
    if kind == "memorise":
        return memorise(task, length=length, epsilon=draw(st.sampled_from([0.5, 0.1])), memory_gib=0.05)
    epsilon = 10.0 ** -draw(st.integers(1, 10 if task.name == "max_sum" else 5))
    shape = {"layers": 2, "heads": dimension} if kind == "two layers" else {}
    return specialise(task, length=length, epsilon=epsilon, **shape)


@given(constructions(), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_no_computed_output_leaves_the_bound(made, seed):
    random = np.random.default_rng(seed)
    x = random.uniform(size=(6, made.length, made.task.token_dim))
    near = np.clip(x[:, :1] + random.normal(size=x.shape) / made.model.architecture.beta, 0, 1)
    x = np.concatenate([x, x.round(), near, np.broadcast_to(x[:, :1], x.shape)])
    assert distance(made, x) <= made.error.total < made.epsilon
    assert made.error.proven and made.error.parts[ROUNDING] > 0


def test_where_all_else_is_exact_rounding_is_all_of_the_bound():
    task = replace(max_sum(dimension=3, token_dim=3), distribution="uniform")
    made = specialise(task, length=1, epsilon=0.1)
    assert made.error.total == made.error.parts[ROUNDING] < 1e-11
    assert 0 < distance(made, np.random.default_rng(0).uniform(size=(100, 1, 3))) <= made.error.total


def test_large_terms_that_cancel_count_in_full():
    task = own(Projection((3e8, -3e8)), Projection((1.0, 0.0)), extrema=("max", "min"))
    made = specialise(task, length=2, epsilon=1.0)
    assert made.error.parts[ROUNDING] > 3e8 * UNIT
    assert distance(made, np.random.default_rng(0).uniform(size=(50, 2, 2))) <= made.error.total


def test_an_epsilon_that_rounding_exceeds_is_refused_with_one_that_it_leaves_room_for():
    task = own(Projection((1.0,)), Projection((1.0,)), token_dim=1, extrema=("max", "min"))
    shape = {"length": 64, "layers": 2, "heads": 1}
    with pytest.raises(
        InvalidInput, match=r"epsilon = \S+: rounding in float64 .* would be possible"
    ) as refusal:
        specialise(task, epsilon=2.1e-12, **shape)
    possible = float(str(refusal.value).split("epsilon = ")[2].split()[0])
    assert specialise(task, epsilon=possible, **shape).error.total < possible


def test_a_sum_in_any_order_is_off_by_no_more_than_gamma():
    terms = np.random.default_rng(0).normal(size=10_000)
    exact = float(np.sum(terms.astype(np.longdouble)))
    for order in (terms, np.sort(terms), np.sort(terms)[::-1]):
        total = 0.0
        for term in order:
            total += term
        assert 0 < abs(total - exact) <= growth(len(terms)) * np.abs(terms).sum()
