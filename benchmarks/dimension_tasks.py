"""Tasks of known dimension, and controls for which one head is enough.

The estimator's weights were fitted to CALIBRATION; REPORTED measures how often it is right. The two share no
name of a family, but 27 of the 41 calibration tasks are monotone images of a reported one: the maximum of
tanh(z) + z/2 is a function of the maximum of z. `unseen.py` has tasks of other kinds. The form of the law was
chosen with results on an earlier draw of REPORTED in view (docs/estimate.md). DRAW counts the draws: whenever
a rule is changed with results in view, it goes up, and with it change all directions, wells, samples, sizes
and levels of noise.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from headcount.data.arrays import DataSet, data_set
from headcount.tasks import library
from headcount.tasks.placement import place_directions, place_wells
from headcount.tasks.retrieval import RetrievalTask, position_sets

Arrays = tuple[np.ndarray, np.ndarray]
Draw = Callable[[int, int, int], Arrays]
Function = Callable[[jax.Array], jax.Array]


@dataclass(frozen=True)
class Known:
    """A task whose D is known. `dimension` 1: one head is enough; 0: nothing can be learnt.

    - `noise`: deviation of noise added to y over that of y, or the share of labels that are flipped.
    - `labels`: into how many classes of equal size y is cut; 0 leaves the numbers.
    - `seed`: with the name, it fixes the samples.
    """

    name: str
    family: str
    dimension: int
    draw: Draw
    length: int
    samples: int
    noise: float = 0.0
    labels: int = 0
    control: bool = False
    seed: int = 0

    @property
    def slug(self) -> str:
        """The name as that of a folder."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())

    def data(self) -> DataSet:
        """Samples of it, with the noise and the labels that it asks for."""
        random = np.random.default_rng([self.seed, *self.name.encode()])
        x, y = self.draw(int(random.integers(2**31)), self.samples, self.length)
        if self.labels:
            cuts = np.quantile(y[:, 0], np.arange(1, self.labels) / self.labels)
            classes = np.searchsorted(cuts, y[:, 0])
            others = (classes + random.integers(1, self.labels, size=len(classes))) % self.labels
            flipped = random.random(len(classes)) < self.noise
            return data_set(x, np.where(flipped, others, classes), name=self.name)
        y = y + self.noise * y.std(axis=0) * random.normal(size=y.shape)
        return data_set(x, y, name=self.name, target="numbers")


def of_task(task: RetrievalTask) -> Draw:
    """Samples of a retrieval task."""

    def draw(seed: int, samples: int, length: int) -> Arrays:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):  # many small programs, each run once
            made = task.sample(jax.random.key(seed), samples, length)
            return np.asarray(made.x), np.asarray(made.y, np.float64)

    return draw


def of_function(token_dim: int, target: Callable[[np.ndarray], np.ndarray]) -> Draw:
    """Normal tokens and a function of all sequences at once."""

    def draw(seed: int, samples: int, length: int) -> Arrays:
        x = np.random.default_rng(seed).normal(size=(samples, length, token_dim))
        return x, np.asarray(target(x), np.float64).reshape(samples, -1)

    return draw


def along_directions(
    name: str,
    function: Function,
    dimension: int,
    token_dim: int,
    seed: int,
    outer: Function,
    positions: object = "all",
) -> RetrievalTask:
    """Maxima of a function of a_i·x."""
    vectors = place_directions(
        "random", dimension=dimension, token_dim=token_dim, smallest_angle=30.0, seed=seed
    )

    def along(vector: object) -> Function:
        direction = jnp.asarray(vector, jnp.float32)
        return lambda token: function(direction @ token)

    return RetrievalTask(
        name=name,
        token_dim=token_dim,
        coordinate_functions=tuple(along(vector) for vector in vectors),
        positions=position_sets(positions),
        extrema=("max",),
        outer=outer,
        distribution="normal",
    )


squashed = partial(along_directions, "squashed", lambda z: jnp.tanh(z) + z / 2)
ripples = partial(along_directions, "ripples", lambda z: z / 2 + jnp.cos(2 * z))


def corners(dimension: int, token_dim: int, seed: int, outer: Function) -> RetrievalTask:
    """Smallest city-block distances to wells."""
    points = place_wells(
        "random", dimension=dimension, token_dim=token_dim, smallest_distance=0.25, seed=seed
    )

    def near(point: object) -> Function:
        well = jnp.asarray(point, jnp.float32)
        return lambda token: jnp.sum(jnp.sqrt((token - well) ** 2 + 1e-2))

    functions = tuple(near(point) for point in points)
    return RetrievalTask(name="corners", token_dim=token_dim, coordinate_functions=functions, outer=outer)


def _weighted(z: jax.Array) -> jax.Array:
    return jnp.sum(z * (1 + 0.2 * (-1.0) ** jnp.arange(z.size)))


def _mixed(z: jax.Array) -> jax.Array:
    return jnp.sum(z) + 0.3 * jnp.prod(jnp.tanh(z))


def _pair(z: jax.Array) -> jax.Array:
    signs = (-1.0) ** jnp.arange(z.size)
    return jnp.stack([jnp.sum(z), jnp.sum(signs * z)])


def calibration() -> Iterator[Known]:
    """Tanh of projections, city-block wells and ripples."""
    outers = (_weighted, _mixed, _pair)
    sizes = ((16, 8_000, 0.0), (32, 12_000, 0.03), (64, 6_000, 0.0))
    for dimension in (1, 2, 3, 4, 5, 6):
        for place, (length, samples, noise) in enumerate(sizes):
            task = squashed(dimension, max(3, dimension), dimension + 10 * place, outers[place])
            name = f"squashed D{dimension} T{length}"
            yield Known(name, "squashed", dimension, of_task(task), length, samples, noise)
    for dimension in (1, 2, 3, 4):
        task = corners(dimension, 2, dimension, outers[dimension % 2])
        noise = 0.02 * (dimension % 2)
        yield Known(f"corners D{dimension}", "corners", dimension, of_task(task), 16, 10_000, noise)
    for dimension in (2, 3, 4):
        halves = ["first half", "second half"] * 2
        task = squashed(dimension, 3, 40 + dimension, _weighted, positions=halves[:dimension])
        yield Known(f"halves D{dimension}", "halves", dimension, of_task(task), 24, 10_000)
    for dimension, classes in ((1, 2), (2, 2), (3, 2), (4, 2), (2, 4), (3, 3)):
        task = squashed(dimension, max(3, dimension), 70 + dimension, _weighted)
        name, noise = f"squashed labels D{dimension} of {classes}", 0.02 * (dimension % 2)
        yield Known(name, "squashed labels", dimension, of_task(task), 16, 12_000, noise, classes)
    # Hard to approximate: falls that are gradual, to a floor of too few samples.
    for place, (dimension, length, samples, noise) in enumerate(
        (
            *((4, 8, 6_000, 0.0), (4, 24, 8_000, 0.03), (5, 8, 8_000, 0.0), (5, 16, 12_000, 0.05)),
            *((6, 12, 8_000, 0.0), (6, 24, 16_000, 0.02), (3, 12, 4_000, 0.05), (2, 16, 6_000, 0.0)),
        )
    ):
        task = ripples(dimension, max(3, dimension), 20 + place, outers[place % 3])
        name = f"ripples D{dimension} T{length}"
        yield Known(name, "ripples", dimension, of_task(task), length, samples, noise)
    for dimension, length in ((3, 8), (4, 12)):
        task = ripples(dimension, max(3, dimension), 30 + dimension, _weighted)
        name = f"ripples labels D{dimension} of 2"
        yield Known(name, "ripples labels", dimension, of_task(task), length, 20_000, labels=2)
    controls = {
        "mean of tanh": lambda x: np.tanh(x @ np.array([1.0, -0.5, 0.3])).mean(axis=1),
        "third token": lambda x: np.sin(x[:, 2, 0]) + x[:, 2, 1],
        "spread": lambda x: x.var(axis=1).sum(axis=1),
        "mean of waves": lambda x: np.sin(3 * x @ np.array([1.0, -0.5, 0.3])).mean(axis=1),
        "waves of the second token": lambda x: np.sin(3 * x[:, 1] @ np.array([1.0, -0.5, 0.3])),
        "noise": lambda x: np.random.default_rng(0).normal(size=len(x)),
    }
    for name, target in controls.items():
        yield Known(name, "controls", int(name != "noise"), of_function(3, target), 16, 8_000, control=True)
    mostly = of_function(3, lambda x: (np.abs(x[:, :, 0]) < 0.67).sum(axis=1) + 0.01 * x[:, :, 0].sum(axis=1))
    yield Known("mostly small", "controls", 1, mostly, 15, 8_000, labels=2, control=True)


CALIBRATION = tuple(calibration())


DRAW = 1

# Length, samples and noise go round, so that every dimension meets several of each.
SIZES = ((8, 6_000), (16, 8_000), (32, 12_000), (64, 20_000), (12, 4_000), (24, 16_000), (48, 10_000))
NOISES = (0.02, 0.05, 0.03)


def reported() -> Iterator[Known]:
    """Maxima along directions, nearness to wells, subsets of positions, outer functions, vectors, labels."""

    def subsets(dimension: int, **more: Any) -> RetrievalTask:
        positions = [("even", "odd", "all")[i % 3] for i in range(dimension)]
        return library.max_sum(dimension=dimension, positions=positions, **more)

    plan: dict[str, tuple[Callable[..., RetrievalTask], tuple[int, ...]]] = {
        "directions": (library.max_sum, (1, 2, 3, 4, 5, 6)),
        "wells": (library.bowls, (1, 2, 3, 4, 5, 6)),
        "subsets": (subsets, (2, 3, 4, 6)),
        "product": (library.bowls_product, (2, 3, 5)),
        "ratio": (library.bowls_ratio, (2, 4)),
        "soft maximum": (library.bowls_soft_maximum, (2, 3)),
        "vector": (library.bowls_several, (1, 2, 3, 5)),
    }

    def made(family: str, dimension: int, seed: int) -> RetrievalTask:
        # Two widths of tokens and no more, so that members of many tasks share a program.
        return plan[family][0](dimension=dimension, token_dim=3 if dimension <= 3 else 6, seed=seed)

    turn = 0
    for family, (_, dimensions) in plan.items():
        for dimension in dimensions:
            for noisy in (False, True):
                if noisy and turn % 3 == 2 and family not in ("directions", "wells"):
                    continue
                turn += 1
                length, samples = SIZES[(turn + 3 * DRAW) % len(SIZES)]
                noise = NOISES[(turn + DRAW) % len(NOISES)] if noisy else 0.0
                task = made(family, dimension, 100 + turn + 1_000 * DRAW)
                name = f"{family} D{dimension}{' with noise' if noisy else ''}"
                yield Known(name, family, dimension, of_task(task), length, samples, noise, seed=DRAW)
    yield Known(
        "extremes D2", "extremes", 2, of_task(library.extremes()), *SIZES[3 * DRAW % len(SIZES)], seed=DRAW
    )
    for place, (family, dimension, classes) in enumerate(
        (kind, dimension, classes)
        for kind in ("directions", "wells")
        for dimension, classes in ((1, 2), (2, 2), (3, 2), (4, 2), (2, 3), (3, 4))
    ):
        task = made(family, dimension, 300 + place + 1_000 * DRAW)
        noise = (0.0, 0.05, 0.02)[(place + DRAW) % 3]
        length = (8, 16, 12)[(place + 2 * DRAW) % 3]
        name, kind = f"{family} D{dimension} as {classes} labels", f"{family} labels"
        yield Known(name, kind, dimension, of_task(task), length, 20_000, noise, classes, seed=DRAW)
    yield from controls()


def controls() -> Iterator[Known]:
    """Targets for which one head is enough, and two that cannot be learnt."""
    weights = np.random.default_rng(DRAW).normal(size=3)
    numbers: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "mean pooling": lambda x: x.mean(axis=1) @ weights,
        "sum of squares over all tokens": lambda x: (x**2).sum(axis=(1, 2)),
        "last token": lambda x: np.tanh(x[:, -1] @ weights) + x[:, -1, 0],
        "first token": lambda x: x[:, 0, 0] * x[:, 0, 1],
        "count above one": lambda x: (x[:, :, 0] > 1).sum(axis=1),
        "square of the mean": lambda x: (x.mean(axis=1) @ weights) ** 2,
        "difference of halves": lambda x: (x[:, ::2] - x[:, 1::2]).mean(axis=1) @ weights,
        "pure noise": lambda x: np.random.default_rng(1).normal(size=len(x)),
    }
    for place, (name, target) in enumerate(numbers.items()):
        length, samples = SIZES[(place + 3 * DRAW) % len(SIZES)]
        dimension, noise = int(name != "pure noise"), 0.02 * ((place + DRAW) % 2)
        draw = of_function(3, target)
        yield Known(name, "controls", dimension, draw, length, samples, noise, control=True, seed=DRAW)
    labels: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "majority": lambda x: np.sign(x[:, :, 0]).sum(axis=1) + 0.01 * x[:, :, 0].sum(axis=1),
        "mean above": lambda x: x.mean(axis=1) @ weights,
        "last token's label": lambda x: x[:, -1] @ weights,
        "coin": lambda x: np.random.default_rng(2).normal(size=len(x)),
    }
    for name, target in labels.items():
        dimension = int(name != "coin")
        draw = of_function(3, target)
        yield Known(name, "controls", dimension, draw, 15, 8_000, labels=2, control=True, seed=DRAW)


REPORTED = tuple(reported())
