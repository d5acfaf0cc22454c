"""Ways to choose the heads that a layer keeps, all of which are tried."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from operator import add

import torch

from headcount.trained.arrays import root_of
from headcount.trained.attention import AttentionBlock
from headcount.trained.importance import Sensitivity, importance_of
from headcount.trained.linear import weight_of
from headcount.trained.refit import MIN_RIDGE, Covariances, Matrix, Moments
from headcount.trained.selection import Ranking, by_scores, eliminated, exchanged, mixed

# The heads that a layer keeps, from the layer, the folds of its moments and their number.
Choose = Callable[[int, Sequence[Moments], int], Sequence[int]]

CAUTIOUS_RIDGE = 1e-2  # draws what is fitted to what the model has: with few samples the fit is not trusted


def ways_to_choose(
    blocks: Sequence[AttentionBlock], sensitivities: Sequence[Sensitivity] | None
) -> dict[str, Choose]:
    """By name: elimination, with and without caution, by the error of a layer and by its effect on what the
    model puts out; gradients; and the mean of both orders.
    """
    cautious = _Eliminating(blocks, CAUTIOUS_RIDGE)
    ways: dict[str, Choose] = {
        "elimination": _Eliminating(blocks, MIN_RIDGE),
        "cautious elimination": cautious,
    }
    if sensitivities is None:
        return ways
    orders = [by_scores(importance_of(each.gates)) for each in sensitivities]

    def by_gradient(layer: int, _: Sequence[Moments], count: int) -> Sequence[int]:
        return orders[layer][:count]

    def by_both(layer: int, moments: Sequence[Moments], count: int) -> Sequence[int]:
        return mixed(cautious.ranked(layer, moments)[1].order, orders[layer])[:count]

    @cache
    def root(layer: int) -> Matrix:
        metric = torch.from_numpy(sensitivities[layer].metric)
        return root_of(metric.to(weight_of(blocks[layer].output).device))

    by_effect = _Eliminating(blocks, CAUTIOUS_RIDGE, root)
    return {**ways, "elimination by effect": by_effect, "gradient": by_gradient, "mixture": by_both}


@dataclass(eq=False)
class _Eliminating:
    """Backward elimination, then exchanges.

    - `root`: of the metric of a layer's errors.
    - `latest`: what was last eliminated of each layer: other numbers of heads need the exchanges alone.
    """

    blocks: Sequence[AttentionBlock]
    ridge: float
    root: Callable[[int], Matrix] | None = None
    latest: dict[int, tuple[Moments, Covariances, Ranking]] = field(default_factory=dict)

    def __call__(self, layer: int, moments: Sequence[Moments], count: int) -> Sequence[int]:
        covariances, ranking = self.ranked(layer, moments)
        return exchanged(covariances, ranking.kept(count), head_dim=self.blocks[layer].head_dim)

    def ranked(self, layer: int, moments: Sequence[Moments]) -> tuple[Covariances, Ranking]:
        """All heads of a layer in order."""
        total = reduce(add, moments)
        if layer not in self.latest or self.latest[layer][0] is not total:
            block = self.blocks[layer]
            towards = weight_of(block.output).double().T
            covariances = total.centred().with_ridge(self.ridge, towards)
            if self.root is not None:
                covariances = covariances.seen_by(self.root(layer))
            self.latest[layer] = total, covariances, eliminated(covariances, head_dim=block.head_dim)
        return self.latest[layer][1:]
