"""Heads, the size of a head and width, each alone, at rates that suit them; and without attention.

In the paper's grid everything grows with the heads: the width between layers, the feed-forward width and the
numbers of all heads together. Here heads have an inner width n·h of their own beside the width E between
layers, so that each can be varied alone. Every cell is trained at three rates (`tuned.py` chooses among them)
and from five seeds. On MS MARCO there are also lists with negatives of one difficulty at every T, and a
retrieval of known D (planted_lists.py). Everything here is small enough for minutes on a GPU.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from headcount.data.cifar10.batches import CLASSES
from headcount.models.encoder import EncoderPrecision, EncoderShape, Mixing
from headcount.models.reranker import RerankerShape
from headcount.models.vit import VitShape
from headcount.reproduce.real.planted_lists import planted_lists
from headcount.reproduce.real.trial import RealData, RealShape, RealTrial
from headcount.reproduce.real.variants import FAST, FEEDFORWARD, GRID, Trials
from headcount.trials.training import Training
from headcount.trials.trial import Trial

APART, SWEEP = "heads, head size and width, each alone", "heads of one size, at one width"
MEAN, ALONE = "a mean over tokens for attention", "no token reads another"
HARDEST, EVENLY = "hardest negatives", "negatives of one difficulty"
PLANTED, PLANTED_DEEP = "planted retrieval in lists, one layer", "planted retrieval in lists, two layers"
PLANTED_HEADS, PLANTED_DEEP_HEADS, PLANTED_WIDTH, PLANTED_SIZE = (1, 2, 3, 4, 6), (1, 3), 48, 16
LOOKED_AT = 20  # evaluation periods: looks at 5 and 10% of a training need that many
Shaped = Callable[[EncoderShape], RealShape]


@dataclass(frozen=True)
class Plan:
    """What is trained: head counts of `head_dim` numbers, within the widths of the least and of the most.

    - `narrow_rates`, `wide_rates`: the rates tried at the two widths, and at those between.
    - `layers`, `dropout`: of the item whose members these stand beside.
    """

    heads: tuple[int, ...]
    head_dim: int
    layers: int
    dropout: float
    narrow_rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    wide_rates: tuple[float, ...] = (3e-4, 1e-3, 3e-3)
    seeds: int = 5
    precision: EncoderPrecision = FAST

    @property
    def narrow(self) -> int:
        """The width of the least heads in the paper's grid."""
        return min(self.heads) * self.head_dim

    @property
    def wide(self) -> int:
        """The width of the most heads in the paper's grid."""
        return max(self.heads) * self.head_dim

    def encoder(self, width: int, heads: int, size: int, mixing: Mixing = "attention") -> EncoderShape:
        """A shape by its width, its heads and their size."""
        return EncoderShape(
            heads,
            size,
            self.layers,
            FEEDFORWARD * width,
            self.dropout,
            self.precision,
            residual_width=width,
            mixing=mixing,
        )

    def encoders(self) -> dict[str, list[EncoderShape]]:
        """The shapes of every variant; the ends of the grid and of the sweep are among the corners."""
        few, many, size = min(self.heads), max(self.heads), self.head_dim
        widths = (self.narrow, self.wide)
        attending = ((few, size), (many, size), (many, few * size // many), (few, many * size))
        return {
            GRID: [self.encoder(count * size, count, size) for count in self.heads],
            APART: [self.encoder(width, *heads) for width, heads in product(widths, attending)],
            SWEEP: [self.encoder(self.wide, count, size) for count in self.heads],
            MEAN: [self.encoder(width, 1, width, "mean") for width in widths],
            ALONE: [self.encoder(width, 1, width, "none") for width in widths],
        }

    def members(
        self,
        encoders: Iterable[EncoderShape],
        shaped: Shaped,
        data: RealData,
        length: int,
        training: Training,
    ) -> Iterator[RealTrial]:
        """Members of these shapes at all rates of their width, from all seeds."""
        for encoder in encoders:
            rates = self.narrow_rates if encoder.width < self.wide else self.wide_rates
            for rate, seed in product(rates, range(self.seeds)):
                yield Trial(data, length, shaped(encoder), rate, seed, training)


FULLY = {
    "cifar10": Plan((1, 2, 4, 8), 16, layers=4, dropout=0.1),
    "msmarco": Plan((1, 2, 4, 8), 32, layers=2, dropout=0.0),
}
QUICKLY = {
    "cifar10": Plan((1, 2), 8, 1, 0.1, (1e-3, 1e-2), (1e-3, 3e-3), 2, "float32"),
    "msmarco": Plan((1, 2), 8, 1, 0.0, (1e-3, 1e-2), (1e-3, 3e-3), 2, "float32"),
}


def trials_of(name: str, data: RealData, *, quick: bool = False) -> Trials:
    """Everything that is trained on a data set, by variant."""
    plan = (QUICKLY if quick else FULLY)[name]
    return (_images if name == "cifar10" else _lists)(plan, data, quick)


def _images(plan: Plan, data: RealData, quick: bool) -> Trials:
    """Without a frame; patches of 4 pixels, or of 8 where it has to be quick.

    A class token that reads no patch knows nothing, so that no member goes without all mixing.
    """
    images, checked, epochs, patch = (400, 200, 20, 8) if quick else (9_000, 3_000, 20, 4)
    training = _training(images, checked, epochs, weight_decay=0.05)

    def shaped(encoder: EncoderShape) -> VitShape:
        return VitShape(32, patch, len(CLASSES), encoder)

    length = shaped(plan.encoder(plan.narrow, 1, 1)).length
    return {
        variant: tuple(plan.members(encoders, shaped, data, length, training))
        for variant, encoders in plan.encoders().items()
        if variant != ALONE
    }


LIST_LENGTH, LENGTHS = 32, (8, 64)


def _lists(plan: Plan, data: RealData, quick: bool) -> Trials:
    """At one T; and at two of them, the ends of the grid with negatives drawn in either way."""
    rankings = data.data.rankings
    queries, checked, epochs = (300, 200, 20) if quick else (len(rankings.train), len(rankings.validation), 6)
    training = _training(queries, checked, epochs, weight_decay=0.01)
    embedding, (short, long) = data.data.queries.shape[1], (4, 16) if quick else LENGTHS

    def shaped(encoder: EncoderShape) -> RerankerShape:
        return RerankerShape(encoder, embedding)

    def at(encoders: Sequence[EncoderShape], length: int, lists: RealData = data) -> tuple[RealTrial, ...]:
        return tuple(plan.members(encoders, shaped, lists, length, training))

    length = (short + long) // 2 if quick else LIST_LENGTH
    encoders = plan.encoders()
    ends = [encoders[GRID][0], encoders[GRID][-1]]
    all_drawn = data if long == rankings.train.length else data.drawing_evenly()
    return {
        **{variant: at(shapes, length) for variant, shapes in encoders.items()},
        HARDEST: (*at(ends, short), *at(ends, long)),
        EVENLY: (*at(ends, short, data.drawing_evenly()), *at(ends, long, all_drawn)),
        **planted(data, seeds=plan.seeds, quick=quick),
    }


def planted(data: RealData, *, seeds: int, quick: bool = False) -> Trials:
    """Lists in which D maxima decide, at one width, for members of one layer and of two."""
    length, lists, checked = (8, 400, 200) if quick else (16, 20_000, 2_000)
    made = planted_lists(data, length=length, train=lists, validation=checked)
    training = _training(lists, checked, 2 if quick else 20, weight_decay=0.01)

    def members(heads: Iterable[int], layers: int) -> tuple[RealTrial, ...]:
        encoders = [
            EncoderShape(
                count, PLANTED_SIZE, layers, FEEDFORWARD * PLANTED_WIDTH, residual_width=PLANTED_WIDTH
            )
            for count in heads
        ]
        shapes = [RerankerShape(encoder, data.data.queries.shape[1]) for encoder in encoders]
        return tuple(
            Trial(made, length, shape, 3e-3, seed, training) for shape, seed in product(shapes, range(seeds))
        )

    return {PLANTED: members(PLANTED_HEADS, 1), PLANTED_DEEP: members(PLANTED_DEEP_HEADS, 2)}


def _training(samples: int, checked: int, epochs: int, *, weight_decay: float) -> Training:
    """Whole evaluation periods: the looks fall on the ends of two of them."""
    batch_size = 128
    steps = -(-samples * epochs // (batch_size * LOOKED_AT)) * LOOKED_AT
    return Training(
        steps=steps,
        batch_size=batch_size,
        weight_decay=weight_decay,
        train_samples=samples,
        validation_samples=checked,
        evaluate_every=steps // LOOKED_AT,
        loss="cross_entropy",
    )
