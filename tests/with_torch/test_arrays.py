"""Sums in PyTorch give what sums in NumPy give."""

import numpy as np
import pytest
import torch

from headcount.trained.arrays import root_of, single_threaded
from headcount.trained.refit import Moments, chosen_ridge, refitted
from headcount.trained.selection import eliminated, exchanged

pytestmark = pytest.mark.torch

HEADS, HEAD_DIM = 6, 4


def both_of(seed):
    """Folds of tokens of correlated heads, in NumPy and in PyTorch, and the projection."""
    random = np.random.default_rng(seed)
    size = HEADS * HEAD_DIM
    z = random.normal(size=(300, size)) @ random.normal(size=(size, size))
    weight = random.normal(size=(size, 9))
    o = z @ weight + 20 * random.normal(size=(300, 9))
    folds = [Moments.of(*pair) for pair in zip(np.split(z, 3), np.split(o, 3), strict=True)]
    tensors = [
        Moments(
            *(torch.as_tensor(part, dtype=torch.float64) for part in (each.gram, each.cross, each.squares))
        )
        for each in folds
    ]
    return (folds, weight), (tensors, torch.from_numpy(weight))


@pytest.mark.parametrize("seed", range(5))
def test_the_same_heads_go_and_the_same_projection_is_fitted(seed):
    found = []
    for folds, weight in both_of(seed):
        total = folds[0] + folds[1] + folds[2]
        seen = total.centred().with_ridge(1e-2, weight).seen_by(root_of(weight.T @ weight))
        order = eliminated(seen, head_dim=HEAD_DIM)
        kept = exchanged(seen, range(3), head_dim=HEAD_DIM)
        ridge = chosen_ridge(folds, [kept], head_dim=HEAD_DIM, towards=weight)
        fit = refitted(total, kept, head_dim=HEAD_DIM, ridge=ridge, towards=weight)
        found.append((order, kept, ridge, fit, fit.error(folds[0])))
    (order, *same, fit, error), (other_order, *other_same, other_fit, other_error) = found
    assert (order.order, same) == (other_order.order, other_same)
    np.testing.assert_allclose(other_order.errors, order.errors, rtol=1e-9, atol=1e-9 * order.errors[0])
    np.testing.assert_allclose(other_fit.weight.numpy(), fit.weight, atol=1e-9)
    np.testing.assert_allclose(other_fit.bias.numpy(), fit.bias, atol=1e-9)
    assert other_error == pytest.approx(error, rel=1e-9)


def test_threads_are_as_many_as_before_whatever_happens():
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="here"), single_threaded():
        assert torch.get_num_threads() == 1
        raise ValueError("here")
    assert torch.get_num_threads() == before
