"""The half of the unseen tasks that is run once, at the end."""

from collections.abc import Iterator

import numpy as np
from unseen import (
    PROJECTION,
    Unseen,
    at,
    first,
    heavy,
    largest,
    made,
    ranked,
    stacked,
    top,
    walk,
    weighted,
    where,
)


def top_sums() -> Iterator[Unseen]:
    why = "an order statistic: {} tokens matter, but soft maxima and pooled thresholds read it in fewer heads"
    yield Unseen(
        "top sums",
        name="sum of the two largest",
        right=(1, 2),
        why=why.format("two"),
        target=lambda x, _: ranked(x, 0)[:, :2].sum(axis=1),
        unsure=True,
    )
    yield Unseen(
        "top sums",
        name="the second largest",
        right=(1, 2),
        why=why.format("two"),
        target=lambda x, _: ranked(x, 0)[:, 1],
        unsure=True,
    )
    yield Unseen(
        "top sums",
        name="the two largest and another maximum",
        right=(2, 3),
        why=why.format("two") + "; and one more maximum",
        target=lambda x, _: ranked(x, 0)[:, :2].sum(axis=1) + largest(x, 1),
        unsure=True,
    )


def medians() -> Iterator[Unseen]:
    why = "no token stands out: counts below thresholds are pooled, and one head of 32 numbers holds them"
    yield Unseen(
        "medians",
        name="median",
        right=(1,),
        why=why,
        target=lambda x, _: np.median(x[..., 0], axis=1),
        length=9,
        unsure=True,
        control=True,
    )
    yield Unseen(
        "medians",
        name="upper minus lower quartile",
        right=(1,),
        why=why,
        target=lambda x, _: np.subtract(*np.quantile(x[..., 0], (0.75, 0.25), axis=1)),
        length=13,
        unsure=True,
        control=True,
    )


def places() -> Iterator[Unseen]:
    yield Unseen(
        "places",
        name="place of a maximum",
        right=(1,),
        why="one token is retrieved, and it knows its place",
        target=lambda x, _: where(x, 0) / 12,
        samples=8_000,
        control=True,
    )
    yield Unseen(
        "places",
        name="distance of two maxima",
        right=(2,),
        why="the places of two tokens",
        target=lambda x, _: (where(x, 0) - where(x, 1)) / 12,
        samples=8_000,
    )
    yield Unseen(
        "places",
        name="another feature at a maximum",
        right=(1,),
        why="one token is retrieved, with all its features",
        target=lambda x, _: at(x, where(x, 0), 1),
        control=True,
    )
    yield Unseen(
        "places",
        name="two features, each at the other's maximum",
        right=(2,),
        why="two tokens are retrieved",
        target=lambda x, _: at(x, where(x, 0), 1) + at(x, where(x, 1), 0),
    )


def orders() -> Iterator[Unseen]:
    yield Unseen(
        "orders",
        name="which maximum comes first",
        right=(2,),
        why="the places of two tokens",
        target=lambda x, _: where(x, 0) < where(x, 1),
        labels=True,
        samples=12_000,
    )
    yield Unseen(
        "orders",
        name="which threshold is passed first",
        right=(2,),
        why="two first places, each a minimum over tokens",
        target=lambda x, _: first(x[..., 0] > 1) < first(x[..., 1] > 1),
        labels=True,
        samples=12_000,
    )
    yield Unseen(
        "orders",
        name="place of the first above one",
        right=(1,),
        why="one first place, a minimum over tokens",
        target=lambda x, _: first(x[..., 0] > 1) / 12,
        samples=8_000,
        control=True,
    )


def varying_lengths() -> Iterator[Unseen]:
    yield Unseen(
        "varying lengths",
        name="two maxima of 4 to 16 tokens",
        right=(2,),
        why="two maxima",
        target=weighted(1, 1),
        length=16,
        lengths=(4, 16),
    )
    yield Unseen(
        "varying lengths",
        name="three maxima of 6 to 20 tokens",
        right=(3,),
        why="three maxima",
        target=weighted(1, 1, 1),
        length=20,
        lengths=(6, 20),
        samples=8_000,
    )
    yield Unseen(
        "varying lengths",
        name="mean of 4 to 16 tokens",
        right=(1,),
        why="an average",
        target=lambda x, _: np.nanmean(np.tanh(x) @ PROJECTION, axis=1),
        length=16,
        lengths=(4, 16),
        control=True,
    )
    yield Unseen(
        "varying lengths",
        name="noise over 4 to 16 tokens",
        right=(0,),
        why="nothing to learn",
        target=lambda x, random: random.normal(size=len(x)),
        length=16,
        lengths=(4, 16),
        control=True,
    )


def several_outputs() -> Iterator[Unseen]:
    yield Unseen(
        "several outputs",
        name="one maximum, and the sum of two others",
        right=(3,),
        why="three maxima in all",
        target=stacked(top(0), lambda x, _: largest(x, 1) + largest(x, 2)),
    )
    yield Unseen(
        "several outputs",
        name="one maximum, and its sum with another",
        right=(2,),
        why="two maxima in all",
        target=stacked(top(0), lambda x, _: largest(x, 0) + largest(x, 1)),
    )
    yield Unseen(
        "several outputs",
        name="two averages and the last token",
        right=(1,),
        why="all are averages of what tokens know of themselves and their place",
        target=stacked(
            lambda x, _: x[..., 0].mean(axis=1),
            lambda x, _: (x[..., 1] ** 2).mean(axis=1),
            lambda x, _: x[:, -1, 2],
        ),
        control=True,
    )


def heavy_tails() -> Iterator[Unseen]:
    for dimension in (2, 3):
        yield Unseen(
            "heavy tails",
            name=f"{dimension} maxima of heavy-tailed tokens",
            right=(dimension,),
            why="maxima; x and y have rare large values",
            target=weighted(*[1.0] * dimension),
            tokens=heavy,
            samples=8_000,
        )
    yield Unseen(
        "heavy tails",
        name="mean of heavy-tailed tokens",
        right=(1,),
        why="an average",
        target=lambda x, _: np.tanh(x @ PROJECTION).mean(axis=1),
        tokens=heavy,
        control=True,
    )


def time_series() -> Iterator[Unseen]:
    yield Unseen(
        "time series",
        name="range of a series",
        right=(2,),
        why="its largest and its smallest value",
        target=lambda x, _: np.ptp(x[..., 0], axis=1),
        tokens=walk,
        length=16,
    )
    yield Unseen(
        "time series",
        name="three maxima of series",
        right=(3,),
        why="three maxima",
        target=weighted(1, 1, 1),
        tokens=walk,
        length=16,
    )
    yield Unseen(
        "time series",
        name="last value and mean of a series",
        right=(1,),
        why="averages of what tokens know of themselves and their place",
        target=lambda x, _: x[:, -1, 0] + x[..., 1].mean(axis=1),
        tokens=walk,
        length=16,
        control=True,
    )


KINDS = {
    "top sums": top_sums,
    "medians": medians,
    "places": places,
    "orders": orders,
    "varying lengths": varying_lengths,
    "several outputs": several_outputs,
    "heavy tails": heavy_tails,
    "time series": time_series,
}
HELD_OUT = made(KINDS)
