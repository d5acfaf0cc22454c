"""CIFAR-10: a vision transformer on images in ever larger frames.

The paper gives layers, numbers per head, class token, norms, residuals, dropout, AdamW and a cosine. Not
given, and chosen here: the feed-forward width 4E, dropout 0.1, the rate, weight decay, batch and epochs. Nor
is it said whether an image has one random place in its frame or a new one at each visit: both are trained.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from headcount.data.cifar10.batches import CLASSES, HOME
from headcount.data.cifar10.files import Cifar10, load_cifar10
from headcount.models.encoder import EncoderShape
from headcount.models.vit import VitShape
from headcount.reproduce.real.images import balanced
from headcount.reproduce.real.item import real_item
from headcount.reproduce.real.paper import CIFAR10_TRAIN, CIFAR10_VALIDATION
from headcount.reproduce.real.trial import RealData, RealTrial
from headcount.reproduce.real.variants import GRID, PLACED_ONCE, Trials, replicated, with_controls
from headcount.reproduce.recipe import Recipe
from headcount.trials.training import Training

LAYERS, HEAD_DIM, DROPOUT, PATCH = 4, 16, 0.1, 4
HEADS, SIDES = (1, 2, 4, 8, 10, 12, 16), (32, 48, 64)
IMAGES, CHECKED, EPOCHS, BATCH, RATE = 18_000, 3_000, 40, 128, 1e-3
WIDTH, FIXED = 128, 8  # of the controls: the width at which heads vary, the heads at which the width does
PRECISE = (8, 32)  # heads and side of the cell trained in float32 too
QUICK_HEADS, QUICK_SIDES, QUICK_PATCH, QUICK_IMAGES, QUICK_EPOCHS = (1, 2, 4), (32, 48), 8, 1_200, 10


def load(folder: Path | str, *, quick: bool = False) -> RealData:
    """The first images of each class: as many as are used, so that what else is there changes nothing."""
    whole = load_cifar10(folder)
    arrays = (
        *balanced(whole.train_images, whole.train_labels, IMAGES),
        *balanced(whole.test_images, whole.test_labels, CHECKED),
    )
    return RealData.read("cifar10", Cifar10(*arrays), *arrays)


def make(recipe: Recipe, data: RealData) -> Trials:
    """The grid; and, at the shorter lengths, heads at one width and widths at one number of heads."""
    heads, sides = (QUICK_HEADS, QUICK_SIDES) if recipe.quick else (HEADS, SIDES)
    patch = QUICK_PATCH if recipe.quick else PATCH
    training = _training(recipe, data.data)

    def trials(encoder: EncoderShape, side: int) -> Iterator[RealTrial]:
        shape = VitShape(side, patch, len(CLASSES), replace(encoder, layers=LAYERS, dropout=DROPOUT))
        return replicated(recipe, data, shape, shape.length, RATE, training)

    found = with_controls(
        recipe,
        heads,
        sides,
        trials,
        head_dim=HEAD_DIM,
        width=WIDTH,
        fixed=FIXED,
        narrow_lengths=2,
        precise=PRECISE,
    )
    return found if recipe.quick else {**found, PLACED_ONCE: tuple(placed_once(found[GRID]))}


def placed_once(trials: Iterable[RealTrial]) -> Iterator[RealTrial]:
    """The same trials, every image at one place of its frame: those at which it can have more than one."""
    for trial in trials:
        assert isinstance(trial.architecture, VitShape)
        if trial.architecture.side > min(SIDES):
            yield replace(trial, task=trial.task.placing_once())


def _training(recipe: Recipe, data: Cifar10) -> Training:
    max_images, epochs = (QUICK_IMAGES, QUICK_EPOCHS) if recipe.quick else (IMAGES, EPOCHS)
    images, checked = min(max_images, len(data.train_labels)), min(max_images, CHECKED, len(data.test_labels))
    an_epoch = -(-images // BATCH)
    return Training(
        steps=epochs * an_epoch,
        batch_size=BATCH,
        weight_decay=0.05,
        train_samples=images,
        validation_samples=checked,
        evaluate_every=an_epoch,
        loss="cross_entropy",
    )


ITEM = real_item(
    "cifar10",
    "CIFAR-10: heads against length",
    "A vision transformer of 4 layers and 16 numbers per head; a small image in frames of several sizes.",
    train=CIFAR10_TRAIN,
    validation=CIFAR10_VALIDATION,
    load=load,
    make=make,
    where=f"the official files or archives of CIFAR-10 ({HOME})",
    seeds=2,
)
