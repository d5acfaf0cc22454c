"""A positive control: a retrieval of known D, learnt by the vision transformer of the CIFAR-10 item.

An image has 16 patches, each of one colour drawn at random. Its class is the tenth in which the sum of three
maxima over the patches falls: the reddest red, the greenest green and the bluest blue, so D = 3. Everything
else is the pipeline of `cifar10`: patches, positions, class token, norms, residuals, dropout, feed-forward.

Written down before it was trained: with one layer the share wrong falls most to h = 3; with four, which the
class token reads in every one, (2L − 1)·h ≥ D holds from one head on, so that more heads change little.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pandas as pd

from headcount.data.cifar10.batches import CLASSES
from headcount.data.cifar10.files import Cifar10
from headcount.models.encoder import EncoderShape
from headcount.models.vit import VitShape
from headcount.report.panel import Panel
from headcount.reproduce.claims import STATISTICS, Verdict, summarise
from headcount.reproduce.item import Item
from headcount.reproduce.real.cifar10 import DROPOUT, RATE
from headcount.reproduce.real.item import transitions
from headcount.reproduce.real.trial import RealData, RealTrial
from headcount.reproduce.real.variants import FEEDFORWARD, replicated
from headcount.reproduce.recipe import Recipe
from headcount.results.store import Store
from headcount.trials.training import Training

D = 3
SIDE, PATCH = 32, 8
HEADS = (1, 2, 3, 4, 6)
WIDTH = 48  # of all members: a multiple of every number of heads
DEEP = 4  # the layers of the vision transformer
NAMES = {1: "one layer", DEEP: f"{DEEP} layers"}
IMAGES, CHECKED, BATCH, EPOCHS = 8_000, 2_000, 64, 40


@cache
def planted(images: int, checked: int) -> RealData:
    """Images of one-coloured patches, and the tenth into which the sum of their maxima falls."""
    random, cells = np.random.default_rng(0), SIDE // PATCH
    colours = random.integers(256, size=(images + checked, cells, cells, D), dtype=np.uint8)
    sums = colours.astype(int).max(axis=(1, 2)).sum(axis=1)
    ranks = (
        (sums + random.random(len(sums))).argsort().argsort()
    )  # ties broken at random: classes of one size
    labels = (ranks * len(CLASSES) // len(sums)).astype(np.int32)
    x = colours.repeat(PATCH, axis=1).repeat(PATCH, axis=2)
    arrays = x[:images], labels[:images], x[images:], labels[images:]
    return RealData.read("planted", Cifar10(*arrays), *arrays)


def members(recipe: Recipe, layers: int) -> tuple[RealTrial, ...]:
    """Every head count at one width."""
    data, an_epoch = planted(IMAGES, CHECKED), -(-IMAGES // BATCH)
    training = Training(
        steps=EPOCHS * an_epoch // (2 if recipe.quick else 1),
        batch_size=BATCH,
        weight_decay=0.05,
        train_samples=IMAGES,
        validation_samples=CHECKED,
        evaluate_every=an_epoch,
        loss="cross_entropy",
    )
    shapes = [
        VitShape(
            SIDE,
            PATCH,
            len(CLASSES),
            EncoderShape(heads, WIDTH // heads, layers, FEEDFORWARD * WIDTH, DROPOUT),
        )
        for heads in HEADS
    ]
    return tuple(
        trial for shape in shapes for trial in replicated(recipe, data, shape, shape.length, RATE, training)
    )


@dataclass(frozen=True)
class PlantedItem(Item):
    """Trials of real-data members, whose data is made rather than read."""

    def named(self, recipe: Recipe) -> dict[str, tuple[RealTrial, ...]]:
        """One layer and several."""
        few = replace(recipe, seeds=min(recipe.seeds, 3))
        return {name: members(few, layers) for layers, name in NAMES.items()}

    def keeps_models(self, recipe: Recipe) -> bool:
        """The estimator compares what members put out."""
        return True

    def look_closer(self, store: Store, recipe: Recipe) -> list[Verdict]:
        """Whether the estimator finds D from the outputs of these members."""
        trained = set(store.frame()["trial"])
        return [
            replace(verdict, claim=f"{name}: {verdict.claim}")
            for name, trials in self.named(recipe).items()
            for verdict in transitions([trial for trial in trials if trial.id in trained], store)
        ]


def panels(frame: pd.DataFrame) -> list[Panel]:
    """The share wrong over heads, a panel for each depth."""
    return [
        Panel(name, cells_of(frame, name), enough=D if layers == 1 else 1, among=HEADS, value="share wrong")
        for layers, name in NAMES.items()
        if name in set(frame["variant"])
    ]


def cells_of(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """One row a cell: real-data members have no test split, so that validation images serve as one."""
    chosen = frame[frame["variant"] == name]
    return summarise(chosen.assign(test_error=chosen["validation_error"]))


def judge(frame: pd.DataFrame) -> list[Verdict]:
    """Where the share wrong falls most with one layer, and whether it falls at all with several."""
    claims = {
        1: f"one layer: from one h to the next, the share wrong falls most to h = {D}",
        DEEP: f"{DEEP} layers: one head does as well as {D}, within a factor of 2",
    }
    verdicts = []
    for layers, claim in claims.items():
        table = cells_of(frame, NAMES[layers]).set_index("heads")
        if len(table) < len(HEADS) or table[list(STATISTICS)].isna().any(axis=None):
            verdicts.append(Verdict(claim, None, "not all head counts are trained"))
            continue
        evidence = ", ".join(f"h = {heads}: {row['median']:.1%}" for heads, row in table.iterrows())
        errors = table[list(STATISTICS)]
        held = (
            ((errors.shift() / errors).iloc[1:].idxmax() == D)
            if layers == 1
            else errors.loc[1] <= 2 * errors.loc[D]
        )
        holds = bool(held.all()) if held.all() or not held.any() else None
        verdicts.append(Verdict(claim, holds, f"median share of validation images wrong: {evidence}"))
    return verdicts


ITEM = PlantedItem(
    "planted",
    "Positive control: a planted retrieval in the vision transformer",
    "Images whose class is decided by D = 3 maxima over their patches, in the pipeline of cifar10.",
    grids=lambda recipe: {},
    panels=panels,
    judge=judge,
)
