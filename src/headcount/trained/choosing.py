"""Ways to choose the heads that a layer keeps, all of which are tried."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add

from headcount.trained.attention import AttentionBlock
from headcount.trained.importance import Sensitivity, importance_of
from headcount.trained.refit import MIN_RIDGE, Covariances, Matrix, Moments
from headcount.trained.selection import by_scores, eliminated, exchanged, mixed

# The heads that a layer keeps, from the layer, the folds of its moments and their number.
Choose = Callable[[int, Sequence[Moments], int], Sequence[int]]

CAUTIOUS_RIDGE = 1e-2  # draws what is fitted to what the model has: with few samples the fit is not trusted


def ways_to_choose(
    blocks: Sequence[AttentionBlock], sensitivities: Sequence[Sensitivity] | None
) -> dict[str, Choose]:
    """By name: elimination, with and without caution, by the error of a layer and by its effect on what the
    model puts out; gradients; and the mean of both orders.
    """
    ways: dict[str, Choose] = {
        "elimination": partial(_eliminating, blocks, None, MIN_RIDGE),
        "cautious elimination": partial(_eliminating, blocks, None, CAUTIOUS_RIDGE),
    }
    if sensitivities is None:
        return ways
    metrics = [each.metric for each in sensitivities]
    orders = [by_scores(importance_of(each.gates)) for each in sensitivities]

    def by_gradient(layer: int, _: Sequence[Moments], count: int) -> Sequence[int]:
        return orders[layer][:count]

    def by_both(layer: int, moments: Sequence[Moments], count: int) -> Sequence[int]:
        covariances = _covariances(blocks[layer], moments, CAUTIOUS_RIDGE)
        order = eliminated(covariances, head_dim=blocks[layer].head_dim).order
        return mixed(order, orders[layer])[:count]

    by_effect = partial(_eliminating, blocks, metrics, CAUTIOUS_RIDGE)
    return {**ways, "elimination by effect": by_effect, "gradient": by_gradient, "mixture": by_both}


def _eliminating(
    blocks: Sequence[AttentionBlock],
    metrics: Sequence[Matrix] | None,
    ridge: float,
    layer: int,
    moments: Sequence[Moments],
    count: int,
) -> Sequence[int]:
    """Backward elimination, then exchanges."""
    covariances, head_dim = _covariances(blocks[layer], moments, ridge), blocks[layer].head_dim
    if metrics is not None:
        covariances = covariances.seen_by(metrics[layer])
    kept = eliminated(covariances, head_dim=head_dim).kept(count)
    return exchanged(covariances, kept, head_dim=head_dim)


def _covariances(block: AttentionBlock, moments: Sequence[Moments], ridge: float) -> Covariances:
    return reduce(add, moments).centred().with_ridge(ridge, block.output_weight())
