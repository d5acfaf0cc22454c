"""The half of the unseen tasks that may be looked at while a rule is changed."""

from collections.abc import Iterator

import numpy as np
from unseen import PROJECTION, Unseen, high, largest, made, scores, weighted, whole


def pooling_plus_retrieval() -> Iterator[Unseen]:
    why = "{} maxima; the average is pooled, by a head of its own or by none"
    yield Unseen(
        "pooling plus retrieval",
        name="three maxima and 0.3 of a summed projection",
        right=(3, 4),
        why=why.format("three"),
        target=lambda x, _: weighted(1, 1, 1)(x, _) + 0.3 * (x @ PROJECTION).sum(axis=1),
        length=16,
    )
    yield Unseen(
        "pooling plus retrieval",
        name="a maximum and a mean of squares",
        right=(1, 2),
        why=why.format("one"),
        target=lambda x, _: largest(x, 0) + 2 * (x[..., 1] ** 2).mean(axis=1),
    )
    yield Unseen(
        "pooling plus retrieval",
        name="two maxima, one scaled by a mean",
        right=(2, 3),
        why=why.format("two"),
        target=lambda x, _: largest(x, 0) + largest(x, 1) * (1 + x[..., 2].mean(axis=1)),
    )


def counts_and_shares() -> Iterator[Unseen]:
    yield Unseen(
        "counts and shares",
        name="count above one",
        right=(1,),
        why="a count is an average of indicators",
        target=lambda x, _: (x[..., 0] > 1).sum(axis=1),
        length=16,
        samples=8_000,
        control=True,
    )
    yield Unseen(
        "counts and shares",
        name="at least three in a box",
        right=(1,),
        why="a count is an average of indicators",
        target=lambda x, _: ((abs(x[..., 0]) < 0.7) & (x[..., 1] > 0)).sum(axis=1) >= 3,
        labels=True,
        samples=8_000,
        control=True,
    )
    yield Unseen(
        "counts and shares",
        name="a count and two maxima",
        right=(2, 3),
        why="two maxima; the count is pooled, by a head of its own or by none",
        target=lambda x, _: 0.5 * (x[..., 0] > 1).sum(axis=1) + largest(x, 1) + largest(x, 2),
    )
    yield Unseen(
        "counts and shares",
        name="a share times a maximum",
        right=(1, 2),
        why="one maximum; the share is pooled, by a head of its own or by none",
        target=lambda x, _: (x[..., 0] > 0).mean(axis=1) * largest(x, 1),
    )


def interactions() -> Iterator[Unseen]:
    yield Unseen(
        "interactions",
        name="XOR of two high maxima",
        right=(2,),
        why="each maximum alone says nothing, so both must be known",
        target=lambda x, _: high(largest(x, 0)) ^ high(largest(x, 1)),
        labels=True,
        samples=12_000,
    )
    yield Unseen(
        "interactions",
        name="product of two centred maxima",
        right=(2,),
        why="each maximum alone says nothing, so both must be known",
        target=lambda x, _: (largest(x, 0) - 1.63) * (largest(x, 1) - 1.63),
    )
    yield Unseen(
        "interactions",
        name="the larger of two maxima, and a third",
        right=(2,),
        why="max of two maxima is one maximum over both features, one head; with the third two",
        target=lambda x, _: np.maximum(largest(x, 0), largest(x, 1)) * largest(x, 2),
    )
    yield Unseen(
        "interactions",
        name="a mean that chooses between two maxima",
        right=(2, 3),
        why="two maxima; the mean is pooled, by a head of its own or by none",
        target=lambda x, _: np.where(x[..., 2].mean(axis=1) > 0, largest(x, 0), largest(x, 1)),
        samples=8_000,
    )


def whole_numbers() -> Iterator[Unseen]:
    for kinds, dimension, length, samples in ((40, 3, 16, 8_000), (10, 2, 6, 6_000), (300, 2, 12, 12_000)):
        yield Unseen(
            "whole numbers",
            name=f"{dimension} scores of {kinds} kinds",
            right=(dimension,),
            why="maxima of independent scores",
            target=scores(kinds, dimension),
            tokens=whole(kinds),
            length=length,
            samples=samples,
        )
    yield Unseen(
        "whole numbers",
        name="1 score of 500 kinds",
        right=(1,),
        why="one maximum",
        target=scores(500, 1),
        tokens=whole(500),
        samples=12_000,
        control=True,
    )
    yield Unseen(
        "whole numbers",
        name="one of two kinds is there, not both",
        right=(1,),
        why="whether a kind is there is seen in its pooled count",
        target=lambda x, _: (x == 3).any(axis=1) ^ (x == 5).any(axis=1),
        tokens=whole(20),
        labels=True,
        samples=8_000,
        control=True,
    )


def heavy_noise() -> Iterator[Unseen]:
    yield Unseen(
        "heavy noise",
        name="two maxima, half noise",
        right=(2,),
        why="two maxima",
        target=weighted(1, 1),
        noise=0.5,
        samples=12_000,
    )
    yield Unseen(
        "heavy noise",
        name="three maxima, 30% noise",
        right=(3,),
        why="three maxima",
        target=weighted(1, 1, 1),
        noise=0.3,
        samples=12_000,
    )
    yield Unseen(
        "heavy noise",
        name="two high maxima, a fifth of labels wrong",
        right=(2,),
        why="two maxima",
        target=lambda x, _: high(largest(x, 0) + largest(x, 1)),
        noise=0.2,
        labels=True,
        samples=16_000,
    )
    yield Unseen(
        "heavy noise",
        name="two maxima, as much noise as signal",
        right=(2,),
        why="two maxima, nearly hidden",
        target=weighted(1, 1),
        noise=1.0,
        unsure=True,
    )
    yield Unseen(
        "heavy noise",
        name="a mean, half noise",
        right=(1,),
        why="an average",
        target=lambda x, _: (x @ PROJECTION).mean(axis=1),
        noise=0.5,
        control=True,
    )


def unequal_weights() -> Iterator[Unseen]:
    for weights in ((1, 0.1), (1, 0.5, 0.2), (1, 0.3, 0.1)):
        yield Unseen(
            "unequal weights",
            name=f"maxima with weights {', '.join(map(str, weights))}",
            right=(len(weights),),
            why="every maximum counts, however little",
            target=weighted(*weights),
            samples=8_000,
        )
    yield Unseen(
        "unequal weights",
        name="averages with weights 1, 0.1",
        right=(1,),
        why="averages",
        target=lambda x, _: x[..., 0].mean(axis=1) + 0.1 * (x[..., 1] ** 2).mean(axis=1),
        control=True,
    )


def fixed_places() -> Iterator[Unseen]:
    yield Unseen(
        "fixed places",
        name="product of two fixed places",
        right=(1,),
        why="tokens know their place, so both stand in one average",
        target=lambda x, _: x[:, 2, 0] * x[:, 7, 1],
        control=True,
    )
    yield Unseen(
        "fixed places",
        name="last token and a maximum",
        right=(2,),
        why="a place and an extremum: no head looks at both",
        target=lambda x, _: x[:, -1, 0] + largest(x, 1),
    )


KINDS = {
    "pooling plus retrieval": pooling_plus_retrieval,
    "counts and shares": counts_and_shares,
    "interactions": interactions,
    "whole numbers": whole_numbers,
    "heavy noise": heavy_noise,
    "unequal weights": unequal_weights,
    "fixed places": fixed_places,
}
MENDING = made(KINDS)
