"""What a plan is held against: other ways to choose as many heads, each with and without a refit."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from headcount.trained.attention import KEY, QUERY, VALUE, AttentionBlock
from headcount.trained.count import Study
from headcount.trained.fitting import cut, ridge_of, shrunk
from headcount.trained.importance import fisher_of, importance_of
from headcount.trained.plan import Kept
from headcount.trained.rise import Rise
from headcount.trained.scalars import rearranged, scale
from headcount.trained.selection import Scores, by_scores, magnitudes
from headcount.validation import check_integer

RANDOM, MAGNITUDE, GRADIENT = "random", "magnitude", "gradient importance"
TORCH_PRUNING, KWON = "Torch-Pruning", "Kwon et al."
REFIT = " + refit"
DRAWS = 10  # of random heads

Ways = dict[str, list[Callable[[int], Kept]]]


def baselines(study: Study, counts: Sequence[int]) -> list[dict[str, Any]]:
    """By how much the loss rises with so many heads in all, on the samples that the plan's rises come from.

    - `random`: the mean of ten draws, between the lowest and the highest of them.
    - `magnitude`: the size of a head's weights, √Σ w² over its part of the four maps, in all layers alike.
    - `Torch-Pruning`: the mean of Σ w² over the four maps, as a share of the layer's mean (its
      `GroupNormImportance` with p = 2, for whole heads).
    - `gradient importance` (Michel et al., 2019): as it is, or with every layer's scores scaled to length 1;
      of the two, the one with the lower rise, which favours it.
    - `Kwon et al.` (2022): heads by Fisher information, exchanged within layers; then one number for each
      head that is kept, by least squares, in place of a refit.

    Each ranks the heads of all layers together and leaves at least one to a layer. The last two are left out
    where the model has no gradients.
    """
    least, most = len(study.heads), sum(study.heads)
    totals = [check_integer("counts", count, at_least=least, at_most=most) for count in counts]
    ways, found = _ways(study), []
    ridges = {name: _ridges(study, choose[0](totals[0])) for name, choose in ways.items() if totals}
    for total in totals:
        for name, choosing in ways.items():
            plans = [choose(total) for choose in choosing]
            for suffix, build in (("", _without_refit(study, name)), (REFIT, _refit(study, ridges[name]))):
                rises = [study.rise(study.reporting.rises(build(kept))) for kept in plans]
                found.append(_row(name, suffix, total, rises))
    return found


def _row(name: str, suffix: str, total: int, rises: Sequence[Rise]) -> dict[str, Any]:
    means = [rise.mean for rise in rises]
    best = rises[int(np.argmin(means))]
    several = name == RANDOM
    return {
        "name": name + suffix,
        "heads": total,
        "rise": float(np.mean(means)) if several else best.mean,
        "low": min(means) if several else best.low,
        "high": max(means) if several else best.high,
    }


def _ways(study: Study) -> Ways:
    """By name, functions from a number of heads to the heads; of several, all are tried."""
    random, blocks = np.random.default_rng(study.seed), study.blocks
    drawn = [[random.random(heads) for heads in study.heads] for _ in range(DRAWS)]
    sizes = [_sizes(block) for block in blocks]
    ways: Ways = {
        RANDOM: [partial(highest, scores) for scores in drawn],
        MAGNITUDE: [partial(highest, sizes)],
        TORCH_PRUNING: [partial(highest, [each**2 / (each**2).mean() for each in sizes])],
    }
    gradients = study.gradients
    if gradients is None:
        return ways
    plain = [importance_of(each) for each in gradients]
    fisher = [fisher_of(each) for each in gradients]

    def exchanged(total: int) -> Kept:
        kept = highest(fisher, total)
        pairs = zip(gradients, kept, strict=True)
        return tuple(rearranged(each, len(heads)) for each, heads in pairs)

    normalised = [each / (np.linalg.norm(each) or 1.0) for each in plain]
    return {
        **ways,
        GRADIENT: [partial(highest, plain), partial(highest, normalised)],
        KWON: [exchanged],
    }


def highest(scores: Sequence[Scores], total: int) -> Kept:
    """The heads with the highest scores of all layers; the best of every layer stays.

    >>> highest([np.array([3.0, 5.0]), np.array([1.0, 2.0])], 2)
    ((1,), (1,))
    """
    orders = [by_scores(each) for each in scores]
    others = [
        (score[head], -layer, -place)
        for layer, (score, order) in enumerate(zip(scores, orders, strict=True))
        for place, head in enumerate(order)
        if place
    ]
    chosen = sorted(others, reverse=True)[: total - len(orders)]
    counts = [1 + sum(-layer == place for _, layer, _ in chosen) for place in range(len(orders))]
    return tuple(tuple(sorted(order[:count])) for order, count in zip(orders, counts, strict=True))


def _sizes(block: AttentionBlock) -> Scores:
    """√Σ w² of every head; those that share a key-value head have all of it."""
    keys, values = (np.repeat(block.weights(which), block.group_size, axis=0) for which in (KEY, VALUE))
    rows = [each.reshape(-1, each.shape[-1]) for each in (block.weights(QUERY), keys, values)]
    return magnitudes(*rows, block.output_weight(), head_dim=block.head_dim)


def _ridges(study: Study, kept: Kept) -> list[float]:
    """The strength of every layer's refits, by cross-validation with these heads."""
    parts: Iterator[Any] = zip(study.blocks, study.layer_moments, kept, strict=True)
    return [ridge_of(block, moments, heads) for block, moments, heads in parts]


def _without_refit(study: Study, name: str) -> Callable[[Kept], nn.Module]:
    if name != KWON:
        return partial(cut, study.whole)
    nothing = [0.0] * len(study.heads)

    def scaled(kept: Kept) -> nn.Module:
        counts, choose = tuple(map(len, kept)), _these(kept)
        return shrunk(study.whole, study.targets, counts, choose, nothing, fit=scale).model

    return scaled


def _refit(study: Study, ridges: Sequence[float]) -> Callable[[Kept], nn.Module]:
    def refitted(kept: Kept) -> nn.Module:
        counts, choose = tuple(map(len, kept)), _these(kept)
        return shrunk(study.whole, study.targets, counts, choose, ridges).model

    return refitted


def _these(kept: Kept) -> Callable[..., Sequence[int]]:
    return lambda layer, *_: kept[layer]
