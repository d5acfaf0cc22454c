"""Grouped keys and values: attention computed with them, and the closest factors there are."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from headcount.errors import InvalidInput
from headcount.trained.grouping import (
    Products,
    grouped_keys,
    grouped_values,
    joint_svd,
    mean,
    partition,
    procrustes_mean,
    root,
)
from headcount.trained.rotary import as_complex, grouped_rotary_keys

HEADS, WIDTH, HEAD_DIM, LENGTH = 3, 10, 4, 7
quickly = settings(max_examples=25, deadline=None)
seeds = st.integers(0, 10_000)


def normal(random, *shape, complex_numbers=False):
    drawn = random.normal(size=shape)
    return drawn + 1j * random.normal(size=shape) if complex_numbers else drawn


def products_of(seed, *, alike=1.0, complex_numbers=False):
    """Heads that are a common part, turned, and `alike` of their own; with the metrics of some data."""
    random = np.random.default_rng(seed)
    common = normal(random, WIDTH, HEAD_DIM, complex_numbers=complex_numbers)
    turns = np.linalg.qr(normal(random, HEADS, HEAD_DIM, HEAD_DIM, complex_numbers=complex_numbers))[0]
    left = common @ turns + alike * normal(random, HEADS, WIDTH, HEAD_DIM, complex_numbers=complex_numbers)
    right = normal(random, HEADS, HEAD_DIM, WIDTH + 2, complex_numbers=complex_numbers)
    moments = [root(drawn.T @ drawn) for drawn in (normal(random, 30, WIDTH), normal(random, 30, WIDTH + 2))]
    return Products(left, right, *moments)


def plain_least_error(products):
    """Of the dense products, side by side: what their singular values leave beyond those of a head."""
    rooted = products.left_root @ (products.left @ products.right) @ products.right_root.T
    sizes = np.linalg.svd(np.hstack(list(rooted)), compute_uv=False)
    return (sizes[HEAD_DIM:] ** 2).sum()


def plain_error(products, shared):
    apart = products.left @ products.right - shared.factor @ shared.own
    return (np.abs(products.left_root @ apart @ products.right_root.T) ** 2).sum()


@quickly
@given(seeds, st.sampled_from([1e-3, 0.3, 1.0]), st.booleans())
def test_the_joint_svd_leaves_what_the_dense_one_does(seed, alike, complex_numbers):
    products = products_of(seed, alike=alike, complex_numbers=complex_numbers)
    for way in (joint_svd, mean, procrustes_mean):
        shared = way(products)
        assert products.error(shared) == pytest.approx(plain_error(products, shared))
    assert products.error(joint_svd(products)) == pytest.approx(plain_least_error(products))


@quickly
@given(seeds, st.sampled_from([1e-3, 0.3, 1.0]), st.booleans())
def test_the_joint_svd_is_never_worse_than_the_mean_or_procrustes(seed, alike, complex_numbers):
    products = products_of(seed, alike=alike, complex_numbers=complex_numbers)
    best = products.error(joint_svd(products))
    assert best <= products.error(mean(products))
    assert best <= products.error(procrustes_mean(products))


@quickly
@given(seeds)
def test_heads_in_one_span_are_shared_without_loss(seed):
    random = np.random.default_rng(seed)
    inside = normal(random, WIDTH, HEAD_DIM) @ normal(random, HEADS, HEAD_DIM, HEAD_DIM)
    products = Products(inside, normal(random, HEADS, HEAD_DIM, WIDTH))
    scale = np.abs(products.left @ products.right).max()
    shared = joint_svd(products)
    np.testing.assert_allclose(shared.factor @ shared.own, inside @ products.right, atol=1e-9 * scale)


@quickly
@given(seeds)
def test_turned_copies_of_one_head_are_what_procrustes_shares_without_loss(seed):
    products = products_of(seed, alike=0.0)
    size = (np.abs(products.left @ products.right) ** 2).sum()
    assert products.error(procrustes_mean(products)) < 1e-12 * size < products.error(mean(products))


@quickly
@given(seeds)
def test_a_basis_within_a_head_changes_nothing(seed):
    products = products_of(seed)
    change = normal(np.random.default_rng(seed + 1), HEADS, HEAD_DIM, HEAD_DIM)
    same = Products(
        products.left @ change,
        np.linalg.inv(change) @ products.right,
        products.left_root,
        products.right_root,
    )
    assert same.error(joint_svd(same)) == pytest.approx(products.error(joint_svd(products)), rel=1e-5)


@pytest.mark.parametrize("way", [joint_svd, mean, procrustes_mean])
@pytest.mark.parametrize("sizes", [(WIDTH, HEAD_DIM), (3, HEAD_DIM)])
def test_a_head_alone_stays_what_it_is(way, sizes):
    random = np.random.default_rng(0)
    products = Products(normal(random, 1, *sizes), normal(random, 1, HEAD_DIM, 6))
    shared = way(products)
    assert shared.factor.shape == sizes
    np.testing.assert_allclose(shared.factor @ shared.own[0], products.left[0] @ products.right[0])


def test_a_moment_without_full_rank_is_met_where_the_data_lie():
    products = products_of(1)
    tokens = np.random.default_rng(1).normal(size=(3, WIDTH))
    thin = Products(products.left, products.right, root(tokens.T @ tokens))
    shared = joint_svd(thin)
    written = tokens @ (products.left @ products.right)
    np.testing.assert_allclose(tokens @ shared.factor @ shared.own, written, atol=1e-6)


def attention(x, queries, keys, values, outputs, *, rotate=None):
    """What a layer writes, by its definition; a row of biases where the weights have one more than x."""

    def through(weights):
        return x @ weights[:WIDTH] + (weights[WIDTH] if len(weights) > WIDTH else 0.0)

    written = 0.0
    for query, key, value, output in zip(queries, keys, values, outputs, strict=True):
        q, k = through(query), through(key)
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        written = written + softmax(q @ k.T, axis=1) @ through(value) @ output
    return written


def rotation(interleaved):
    """A rotary embedding of LENGTH places, pair by pair."""

    def rotate(q):
        turned = np.empty_like(q)
        for place in range(LENGTH):
            for pair in range(HEAD_DIM // 2):
                one, other = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + HEAD_DIM // 2)
                angle = place * 0.7 ** (pair + 1)
                cos, sin = np.cos(angle), np.sin(angle)
                turned[place, one] = cos * q[place, one] - sin * q[place, other]
                turned[place, other] = sin * q[place, one] + cos * q[place, other]
        return turned

    return rotate


@quickly
@given(seeds)
def test_attention_with_heads_in_one_span_is_the_same_with_one_shared(seed):
    random = np.random.default_rng(seed)
    mix = normal(random, HEADS, HEAD_DIM, HEAD_DIM)
    keys, values = (normal(random, WIDTH + 1, HEAD_DIM) @ mix for _ in range(2))
    queries, outputs = normal(random, HEADS, WIDTH + 1, HEAD_DIM), normal(random, HEADS, HEAD_DIM, 6)
    x = normal(random, LENGTH, WIDTH) / 10
    key, own_queries = grouped_keys(keys, queries)
    value, own_outputs = grouped_values(values, outputs)
    found = attention(x, own_queries, [key] * HEADS, [value] * HEADS, own_outputs)
    np.testing.assert_allclose(found, attention(x, queries, keys, values, outputs), rtol=1e-6, atol=1e-6)


@quickly
@given(seeds, st.booleans())
def test_rotary_attention_with_keys_that_differ_by_complex_gains_is_the_same_with_one(seed, interleaved):
    random = np.random.default_rng(seed)
    shared = normal(random, WIDTH + 1, HEAD_DIM // 2, complex_numbers=True)
    complex_keys = shared * normal(random, HEADS, 1, HEAD_DIM // 2, complex_numbers=True)
    parts = [complex_keys.real, complex_keys.imag]
    keys = np.concatenate(parts, axis=-1)
    if interleaved:
        keys = np.stack(parts, axis=-1).reshape(HEADS, WIDTH + 1, HEAD_DIM)
    queries = normal(random, HEADS, WIDTH + 1, HEAD_DIM)
    values, outputs = normal(random, HEADS, WIDTH + 1, HEAD_DIM), normal(random, HEADS, HEAD_DIM, 6)
    x, rotate = normal(random, LENGTH, WIDTH) / 10, rotation(interleaved)
    key, own = grouped_rotary_keys(keys, queries, interleaved=interleaved)
    found = attention(x, own, [key] * HEADS, values, outputs, rotate=rotate)
    wanted = attention(x, queries, keys, values, outputs, rotate=rotate)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


@quickly
@given(seeds)
def test_grouped_rotary_scores_are_closer_than_those_of_mean_keys_over_all_distances(seed):
    random = np.random.default_rng(seed)
    keys, queries = (normal(random, HEADS, WIDTH, HEAD_DIM) for _ in range(2))

    def lost(way):
        key, own = grouped_rotary_keys(keys, queries, way=way)
        before, after = (
            as_complex(query, interleaved=False)[:, :, None]
            * as_complex(key, interleaved=False).conj()[:, None]
            for query, key in ((queries, keys), (own, key[None]))
        )
        return (np.abs(before - after) ** 2).sum()

    assert lost(joint_svd) <= lost(procrustes_mean) and lost(joint_svd) <= lost(mean)


def test_partition_finds_the_heads_that_are_alike():
    random = np.random.default_rng(3)
    kinds = [0, 1, 2, 1, 0, 2]
    values = np.stack([normal(random, WIDTH, HEAD_DIM)] * 6)
    common = normal(random, 3, WIDTH, HEAD_DIM)
    values = common[kinds] @ normal(random, 6, HEAD_DIM, HEAD_DIM)
    outputs = normal(random, 6, HEAD_DIM, WIDTH)

    def cost(group):
        products = Products(values[list(group)], outputs[list(group)])
        return products.error(joint_svd(products))

    assert partition(6, 3, cost) == ((0, 4), (1, 3), (2, 5))


@quickly
@given(seeds)
def test_a_partition_has_every_head_once_and_no_exchange_that_helps(seed):
    drawn = np.random.default_rng(seed).random((6, 6))

    def cost(group):
        return sum(drawn[one, other] for one, other in combinations(group, 2))

    found = partition(6, 2, cost)
    assert sorted(head for group in found for head in group) == list(range(6))
    for one in found[0]:
        for other in found[1]:
            swapped = (
                tuple(sorted({*found[0], other} - {one})),
                tuple(sorted({*found[1], one} - {other})),
            )
            assert sum(map(cost, swapped)) >= sum(map(cost, found)) - 1e-9


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: partition(6, 4, lambda group: 0.0), "groups: expected a divisor of 6"),
        (lambda: partition(6, 0, lambda group: 0.0), "groups: expected an integer from 1 to 6, got 0"),
        (lambda: Products(np.ones((2, 3, 4)), np.ones((2, 5, 6))), "products: expected the shapes"),
        (lambda: grouped_rotary_keys(np.ones((2, 4, 3)), np.ones((2, 4, 3))), "head_dim: expected an even"),
    ],
)
def test_bad_input_is_refused_in_a_line(call, line):
    with pytest.raises(InvalidInput, match=line):
        call()
