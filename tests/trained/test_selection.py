"""Which heads to keep: the fast ways agree with fitting every candidate anew."""

import numpy as np
import pytest
from attention_moments import (
    heads_outputs,
    plain_elimination,
    plain_error,
    plain_exchanges,
    spread_heads,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InvalidInput
from headcount.trained.refit import Moments, columns_of
from headcount.trained.selection import (
    by_scores,
    eliminated,
    exchanged,
    magnitudes,
    mixed,
)

quickly = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)


def covariances_of(seed, ridge=0.0, **sizes):
    z, o, weight = heads_outputs(seed, **sizes)
    return Moments.of(z, o).centred().with_ridge(ridge, weight)


@quickly
@given(seeds, st.sampled_from([0.0, 1e-3, 1.0]), st.integers(1, 4))
def test_elimination_agrees_with_fitting_every_candidate_anew(seed, ridge, head_dim):
    covariances = covariances_of(seed, ridge, heads=6, head_dim=head_dim)
    found = eliminated(covariances, head_dim=head_dim)
    assert found.order == plain_elimination(covariances, head_dim)
    for count in range(7):
        left = covariances.error_left(columns_of(found.kept(count), head_dim))
        assert found.errors[count] == pytest.approx(left, abs=1e-9 * covariances.variance)


@quickly
@given(seeds, st.sets(st.integers(0, 5), min_size=1))
def test_exchanges_agree_with_fitting_every_pair_anew(seed, kept):
    covariances = covariances_of(seed, heads=6)
    found = exchanged(covariances, kept, head_dim=3)
    assert found == plain_exchanges(covariances, kept, 3)
    assert covariances.error_left(columns_of(found, 3)) <= covariances.error_left(columns_of(sorted(kept), 3))


@quickly
@given(seeds, st.sampled_from([0.0, 1e-9, 1e-3]))
def test_real_heads_spread_over_more_are_counted(seed, noise):
    z, o, weight = spread_heads(seed, noise=noise)
    covariances = Moments.of(z, o).centred().with_ridge(0, weight)
    found = eliminated(covariances, head_dim=3)
    assert sorted(found.order) == list(range(8))
    assert found.errors[4] < 1e-4 * covariances.variance < found.errors[3]
    kept = exchanged(covariances, found.kept(4), head_dim=3)
    assert plain_error(z, o, kept, 3) < 1e-4 * covariances.variance


@quickly
@given(seeds, st.sampled_from([0.0, 1e-9, 1e-3]))
def test_elimination_takes_a_cheapest_head_at_every_step_where_heads_are_collinear(seed, noise):
    z, o, weight = spread_heads(seed, noise=noise)
    covariances = Moments.of(z, o).centred().with_ridge(0, weight)
    left = list(eliminated(covariances, head_dim=3).order)
    while left:
        tried = [
            covariances.error_left(columns_of([each for each in left if each != head], 3)) for head in left
        ]
        assert tried[-1] <= min(tried) + 1e-5 * covariances.variance
        left.pop()


@quickly
@given(seeds)
def test_fewer_tokens_than_columns_still_give_an_order(seed):
    z, o, weight = heads_outputs(seed, heads=6, head_dim=12, tokens=64)
    covariances = Moments.of(z, o).centred().with_ridge(1e-2, weight)
    found = eliminated(covariances, head_dim=12)
    assert found.order == plain_elimination(covariances, 12)
    assert np.isfinite(found.errors).all()


def test_elimination_finds_the_heads_that_magnitude_takes_for_the_weakest():
    random = np.random.default_rng(0)
    z = random.normal(size=(500, 4)) * [1.0, 0.1, 1.0, 0.1]
    z[:, 2] = z[:, 0] + 1e-3 * z[:, 2]  # the third says what the first does
    weight = np.array([[1.0, 0.0], [0.0, 5.0], [1.0, 0.0], [3.0, 3.0]])
    found = eliminated(Moments.of(z, z @ weight).centred().with_ridge(0), head_dim=1)
    assert found.errors[3] < 1e-5 * found.errors[0]
    assert found.order[-1] in (0, 2)
    assert by_scores(magnitudes(weight, head_dim=1)) == (1, 3, 0, 2)


@quickly
@given(st.permutations(range(6)), st.permutations(range(6)))
def test_a_mixture_keeps_what_both_orders_agree_on(first, second):
    found = mixed(first, second)
    assert sorted(found) == list(range(6))
    assert mixed(first, first) == tuple(first)
    for one in range(6):
        for other in range(6):
            if all(order.index(one) < order.index(other) for order in (first, second)):
                assert found.index(one) < found.index(other)


def test_a_head_size_that_does_not_divide_is_refused():
    with pytest.raises(InvalidInput, match="head_dim: expected a divisor of 15"):
        eliminated(covariances_of(0), head_dim=4)
