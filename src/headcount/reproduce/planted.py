"""A positive control: a retrieval of known D, learnt by the vision transformer of the CIFAR-10 item.

An image has 16 patches, each of one colour drawn at random. Its class is the tenth in which the sum of three
maxima over the patches falls: the reddest red, the greenest green and the bluest blue, so D = 3. Colours are
dark as a rule, so that the brightest ones differ between images. All members have one width between layers
and heads of one size. Everything else is the pipeline of `cifar10`: patches, positions, class token, norms,
residuals, dropout, feed-forward.

What is expected: with one layer the share wrong falls most to h = 3; with four, all of which the class token
reads in, (2L − 1)·h ≥ D holds from one head on, so that more heads change little. (While this was written
h = 2 and 3 in one layer were tried, from one seed; the colours were chosen by that.)
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headcount.data.cifar10.batches import CLASSES
from headcount.data.cifar10.files import Cifar10
from headcount.models.encoder import EncoderShape
from headcount.models.vit import VitShape
from headcount.reproduce.claims import Verdict, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.real.cifar10 import DROPOUT
from headcount.reproduce.real.early import early_verdicts
from headcount.reproduce.real.estimating import finds
from headcount.reproduce.real.positive import as_well_as, falls_most
from headcount.reproduce.real.trial import RealData, RealTrial
from headcount.reproduce.real.tuned import tuned_cells, with_scores
from headcount.reproduce.real.variants import FEEDFORWARD, replicated
from headcount.reproduce.recipe import Recipe
from headcount.results.store import Store
from headcount.trials.training import Training

if TYPE_CHECKING:
    from headcount.report.panel import Panel

D = 3
SIDE, PATCH = 32, 8
DARK = 8  # the power of a uniform number that a colour is: the maxima of 16 then spread over all of it
WIDTH, HEAD_DIM = 48, 16
DEEP = 4  # the layers of the vision transformer
NAMES = {1: "one layer", DEEP: f"{DEEP} layers"}
HEADS = {1: (1, 2, 3, 4, 6), DEEP: (1, 3)}
IMAGES, CHECKED, BATCH, STEPS, RATE, SEEDS = 8_000, 2_000, 128, 2_500, 2e-3, 5
QUICK_IMAGES, QUICK_STEPS, QUICK_SEEDS = 800, 100, 2


@cache
def planted(images: int, checked: int) -> RealData:
    """Images of one-coloured patches, and the tenth into which the sum of their maxima falls."""
    random, cells = np.random.default_rng(0), SIDE // PATCH
    drawn = random.random((images + checked, cells, cells, D))
    colours = (256 * drawn**DARK).astype(np.uint8)
    sums = colours.astype(int).max(axis=(1, 2)).sum(axis=1)
    tied = random.random(len(sums))  # broken at random: classes of one size
    labels = ((sums + tied).argsort().argsort() * len(CLASSES) // len(sums)).astype(np.int32)
    x = colours.repeat(PATCH, axis=1).repeat(PATCH, axis=2)
    arrays = x[:images], labels[:images], x[images:], labels[images:]
    return RealData.read("planted", Cifar10(*arrays), *arrays)


def members(recipe: Recipe, layers: int) -> tuple[RealTrial, ...]:
    """Every head count at one width."""
    images, steps = (QUICK_IMAGES, QUICK_STEPS) if recipe.quick else (IMAGES, STEPS)
    data = planted(images, images // 4)
    training = Training(
        steps=steps,
        batch_size=BATCH,
        weight_decay=0.05,
        train_samples=images,
        validation_samples=images // 4,
        evaluate_every=steps // 20,
        loss="cross_entropy",
    )
    shapes = [
        VitShape(
            SIDE,
            PATCH,
            len(CLASSES),
            EncoderShape(heads, HEAD_DIM, layers, FEEDFORWARD * WIDTH, DROPOUT, residual_width=WIDTH),
        )
        for heads in HEADS[layers]
    ]
    return tuple(
        trial for shape in shapes for trial in replicated(recipe, data, shape, shape.length, RATE, training)
    )


@dataclass(frozen=True)
class PlantedItem(Item):
    """Trials of real-data members, whose data is made rather than read."""

    def named(self, recipe: Recipe) -> dict[str, tuple[RealTrial, ...]]:
        """One layer and several."""
        few = replace(recipe, seeds=min(recipe.seeds, QUICK_SEEDS if recipe.quick else SEEDS))
        return {name: members(few, layers) for layers, name in NAMES.items()}

    def keeps_models(self, recipe: Recipe) -> bool:
        """The estimator compares what members put out."""
        return True

    def look_closer(self, store: Store, recipe: Recipe) -> list[Verdict]:
        """Whether the estimator finds D from the outputs of the members of one layer."""
        found = finds(self.named(recipe)[NAMES[1]], store, dimension=D)
        return [replace(found, claim=f"{NAMES[1]}: {found.claim}")]


def panels(frame: pd.DataFrame) -> "list[Panel]":
    """The share wrong over heads, a panel for each depth."""
    from headcount.report.panel import Panel  # draws: not installed where members are trained alone

    return [
        Panel(
            name, cells_of(frame, name), enough=D if layers == 1 else 1, among=HEADS[1], value="share wrong"
        )
        for layers, name in NAMES.items()
        if name in set(frame["variant"])
    ]


def cells_of(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """One row a cell: real-data members have no test split, so that validation images serve as one."""
    chosen = frame[frame["variant"] == name]
    return summarise(chosen.assign(test_error=chosen["validation_error"]))


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """Where the share wrong falls most with one layer, whether it falls with four, and what shows early."""
    if frame.empty:
        return [
            Verdict(
                f"one layer: from one h to the next, the share wrong falls most to h = {D}",
                None,
                "not trained",
            )
        ]
    parts = dict(iter(with_scores(frame).groupby("variant")))
    wrong = {name: tuned_cells(cells, "heads", column="validation_error") for name, cells in parts.items()}
    return [
        falls_most(NAMES[1], wrong.get(NAMES[1], {}), at=D),
        as_well_as(NAMES[DEEP], wrong.get(NAMES[DEEP], {}), few=1, many=D),
        *(early_verdicts(NAMES[1], parts[NAMES[1]]) if NAMES[1] in parts else ()),
    ]


ITEM = PlantedItem(
    "planted",
    "Positive control: a planted retrieval in the vision transformer",
    "Images whose class is decided by D = 3 maxima over their patches, in the pipeline of cifar10.",
    grids=lambda recipe: {},
    panels=panels,
    judge=judge,
)
