"""Ways to choose the heads that a layer keeps, all of which are tried."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add

from headcount.trained.attention import AttentionBlock
from headcount.trained.refit import MIN_RIDGE, Covariances, Moments
from headcount.trained.selection import Scores, by_scores, eliminated, exchanged, mixed

# The heads that a layer keeps, from the layer, the folds of its moments and their number.
Choose = Callable[[int, Sequence[Moments], int], Sequence[int]]

CAUTIOUS_RIDGE = 1e-2  # draws what is fitted to what the model has: with few samples the fit is not trusted


def ways_to_choose(blocks: Sequence[AttentionBlock], scores: Sequence[Scores] | None) -> dict[str, Choose]:
    """By name: elimination with and without caution, gradients, and the mean of both orders."""
    ways: dict[str, Choose] = {
        "elimination": partial(_eliminating, blocks, MIN_RIDGE),
        "cautious elimination": partial(_eliminating, blocks, CAUTIOUS_RIDGE),
    }
    if scores is None:
        return ways
    orders = [by_scores(each) for each in scores]

    def by_gradient(layer: int, _: Sequence[Moments], count: int) -> Sequence[int]:
        return orders[layer][:count]

    def by_both(layer: int, moments: Sequence[Moments], count: int) -> Sequence[int]:
        covariances = _covariances(blocks[layer], moments, CAUTIOUS_RIDGE)
        order = eliminated(covariances, head_dim=blocks[layer].head_dim).order
        return mixed(order, orders[layer])[:count]

    return {**ways, "gradient": by_gradient, "mixture": by_both}


def _eliminating(
    blocks: Sequence[AttentionBlock], ridge: float, layer: int, moments: Sequence[Moments], count: int
) -> Sequence[int]:
    """Backward elimination, then exchanges."""
    covariances, head_dim = _covariances(blocks[layer], moments, ridge), blocks[layer].head_dim
    kept = eliminated(covariances, head_dim=head_dim).kept(count)
    return exchanged(covariances, kept, head_dim=head_dim)


def _covariances(block: AttentionBlock, moments: Sequence[Moments], ridge: float) -> Covariances:
    return reduce(add, moments).centred().with_ridge(ridge, block.output_weight())
