"""The refitted output projection: least squares on the tokens themselves, from their moments alone."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from attention_moments import heads_outputs, moments_by_folds, plain_error, spread_heads
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.errors import InvalidInput
from headcount.trained.refit import (
    MIN_RIDGE,
    RIDGES,
    Moments,
    chosen_ridge,
    columns_of,
    cross_validated_errors,
    refitted,
)

quickly = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)
subsets = st.sets(st.integers(0, 4), min_size=1)


@quickly
@given(seeds, subsets)
def test_a_refit_from_moments_is_least_squares_on_the_tokens(seed, kept):
    z, o, _ = heads_outputs(seed)
    o = o + np.random.default_rng(seed).normal(size=o.shape)
    moments = Moments.of(z, o)
    found = refitted(moments, kept, head_dim=3)
    written = z[:, found.columns] @ found.weight + found.bias
    error = ((o - written) ** 2).sum(axis=1).mean()
    assert error == pytest.approx(plain_error(z, o, kept, 3), rel=1e-6)
    assert found.error(moments) == pytest.approx(error, rel=1e-8)
    left = moments.centred().with_ridge(0).error_left(columns_of(sorted(kept), 3))
    assert left == pytest.approx(error, abs=1e-6 * plain_error(z, o, [], 3))


@quickly
@given(seeds)
def test_moments_of_folds_add_up_to_those_of_all_tokens(seed):
    z, o, _ = heads_outputs(seed)
    whole, summed = Moments.of(z, o), reduce(add, moments_by_folds(z, o, 4))
    np.testing.assert_allclose(summed.gram, whole.gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(summed.cross, whole.cross, rtol=1e-9, atol=1e-9)
    assert summed.squares == pytest.approx(whole.squares)


@quickly
@given(seeds, st.integers(1, 5))
def test_moments_times_a_number_are_those_of_repeated_tokens(seed, times):
    z, o, _ = heads_outputs(seed, tokens=20)
    repeated, weighted = (
        Moments.of(np.tile(z, (times, 1)), np.tile(o, (times, 1))),
        Moments.of(z, o).times(times),
    )
    np.testing.assert_allclose(weighted.gram, repeated.gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(weighted.cross, repeated.cross, rtol=1e-9, atol=1e-9)
    assert weighted.squares == pytest.approx(repeated.squares)
    assert weighted.weight == times * 20


@quickly
@given(seeds, subsets, st.sampled_from(RIDGES))
def test_the_whole_projection_is_kept_by_any_ridge_towards_it(seed, kept, ridge):
    z, o, weight = heads_outputs(seed)
    moments = Moments.of(z, o)
    everything = refitted(moments, range(5), head_dim=3, ridge=ridge, towards=weight)
    np.testing.assert_allclose(everything.weight, weight, atol=1e-6)
    strong = refitted(moments, kept, head_dim=3, ridge=1e12, towards=weight)
    np.testing.assert_allclose(strong.weight, weight[columns_of(sorted(kept), 3)], atol=1e-6)
    np.testing.assert_allclose(
        strong.bias, (o - z[:, strong.columns] @ strong.weight).mean(axis=0), atol=1e-6
    )


@quickly
@given(seeds, subsets, st.sampled_from(RIDGES))
def test_a_ridge_is_the_least_of_error_and_distance(seed, kept, ridge):
    z, o, weight = heads_outputs(seed)
    moments = Moments.of(z, o)
    found = refitted(moments, kept, head_dim=3, ridge=ridge, towards=weight)
    strength = ridge * z.var(axis=0).mean()
    drawn_to = weight[found.columns]

    def objective(change):
        written = z[:, found.columns] @ (found.weight + change) + found.bias
        written += (o - written).mean(axis=0)
        distance = ((found.weight + change - drawn_to) ** 2).sum()
        return ((o - written) ** 2).sum(axis=1).mean() + strength * distance

    least = objective(0.0)
    random = np.random.default_rng(seed)
    for size in (1e-3, 1e-1):
        assert objective(size * random.normal(size=found.weight.shape)) > least


@pytest.mark.parametrize("noise", [0.0, 1e-9])
def test_collinear_heads_are_refitted_without_loss(noise):
    z, o, weight = spread_heads(0, noise=noise)
    found = refitted(Moments.of(z, o), [0, 2, 5, 7], head_dim=3, towards=weight)
    written = z[:, found.columns] @ found.weight + found.bias
    assert ((o - written) ** 2).sum() < 1e-8 * (o**2).sum()


@quickly
@given(seeds)
def test_few_samples_get_a_ridge_and_many_hardly_one(seed):
    kept = [0, 1, 3]

    def chosen(tokens):
        z, o, weight = heads_outputs(seed, heads=6, head_dim=4, tokens=tokens)
        o = o + 10 * np.random.default_rng(seed).normal(size=o.shape)
        return chosen_ridge(moments_by_folds(z, o, 4), [kept], head_dim=4, towards=weight)

    assert chosen(20_000) <= 1e-2
    assert chosen(20) >= chosen(20_000)


def test_the_chosen_ridge_is_best_on_what_was_not_fitted_and_one_fold_refits_nothing():
    z, o, weight = heads_outputs(1, tokens=40)
    folds = moments_by_folds(z, o, 4)
    best = chosen_ridge(folds, [[0, 1], [2]], head_dim=3, towards=weight)

    def left(ridge):
        return sum(
            cross_validated_errors(folds, kept, head_dim=3, ridges=[ridge], towards=weight)[0]
            for kept in ([0, 1], [2])
        )

    assert left(best) == min(map(left, RIDGES))
    assert chosen_ridge(folds[:1], [[0, 1]], head_dim=3, towards=weight) == max(RIDGES)


def test_the_cross_validated_error_is_that_of_tokens_left_out():
    z, o, _ = heads_outputs(2, tokens=80)
    o = o + np.random.default_rng(2).normal(size=o.shape)
    folds = moments_by_folds(z, o, 2)
    errors = []
    for here, there in ((slice(40), slice(40, 80)), (slice(40, 80), slice(40))):
        with_one = np.hstack([z[:, :6], np.ones((80, 1))])
        weight, *_ = np.linalg.lstsq(with_one[here], o[here], rcond=None)
        errors.append(((o[there] - with_one[there] @ weight) ** 2).sum(axis=1).mean())
    found = cross_validated_errors(folds, [0, 1], head_dim=3, ridges=[MIN_RIDGE])
    assert found[0] == pytest.approx(np.mean(errors), rel=1e-5)


@pytest.mark.parametrize(
    ("gram", "cross"),
    [
        (np.eye(3), np.ones((2, 1))),
        (np.full((3, 3), np.nan), np.ones((3, 1))),
        (np.zeros((3, 3)), np.ones((3, 1))),
    ],
)
def test_moments_that_cannot_be_are_refused(gram, cross):
    with pytest.raises(InvalidInput, match="moments: expected"):
        Moments(gram, cross, 1.0)
