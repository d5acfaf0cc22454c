"""How many heads a model needs: each layer alone, all layers alike, and all layers in shares of their own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.allocation import Effects, filled_in, shares, uniform, without_noise
from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, size_of, split
from headcount.trained.descent import Counts, Descent, Step, descend
from headcount.trained.discovery import attention_blocks
from headcount.trained.effect import Measure, Own
from headcount.trained.fitting import (
    Order,
    Shrunk,
    alone,
    by_elimination,
    moments_of,
    resampled,
    shrunk,
)
from headcount.trained.refit import Moments
from headcount.trained.rise import PerSample, Rise, rise_of, step_of
from headcount.trained.taps import FOLDS, Targets, targets_of

# Of the samples: fitted to and chosen with, guessed with, judged with, and reported with.
SHARES = (4, 1, 3, 2)
MIN_SAMPLES = 40
REPLICATES = 4  # selections from other draws of the folds
Note = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Samples:
    """The parts of the samples: the first two are the selection's."""

    fitted: list[Batch]
    guessed: list[Batch]
    judged: list[Batch]
    reported: list[Batch]

    @classmethod
    def of(cls, batches: Sequence[Batch], *, seed: int) -> "Samples":
        """All of them, shared out."""
        total = sum(map(size_of, batches))
        if total < MIN_SAMPLES:
            raise InvalidInput(f"batches: expected at least {MIN_SAMPLES} samples, got {total}")
        return cls(*split(batches, SHARES, seed=seed))


@dataclass(frozen=True, eq=False)
class Counted:
    """Where the ways down end.

    - `layers`: each layer alone, the others whole.
    - `uniform`, `free`: all layers together, with as many heads each, and in shares by what each layer's
      heads are worth.
    - `spreads`: how far the mean rise at these ends moves with other samples of the selection; layers first.
    """

    layers: tuple[Descent, ...]
    uniform: Descent
    free: Descent
    spreads: tuple[float, ...]


class Study:
    """The measurements on one model; each way down builds models, tries them and forgets them."""

    def __init__(
        self,
        whole: nn.Module,
        samples: Samples,
        *,
        tolerance: float,
        loss: Own | None = None,
        metric: Own | None = None,
        distance: str | None = None,
        seed: int = 0,
    ) -> None:
        self.whole, self.samples, self.tolerance, self.seed = whole, samples, tolerance, seed
        self.blocks: tuple[AttentionBlock, ...] = attention_blocks(whole)
        self.targets: Targets = targets_of(whole, self.blocks, samples.fitted, seed=seed)
        self.order: Order = by_elimination(self.blocks)

        def measure(batches: Sequence[Batch]) -> Measure:
            return Measure.of(whole, batches, loss=loss, metric=metric, kind=distance)

        self.guessing, self.judging, self.reporting = map(
            measure, (samples.guessed, samples.judged, samples.reported)
        )
        self.effects = self._distance(samples.guessed, distance)
        self.step = step_of(np.concatenate([self.judging.whole, self.reporting.whole]))

    def _distance(self, batches: Sequence[Batch], kind: str | None) -> Measure:
        """Heads are shared out by a distance from the whole model: it has less noise than a loss."""
        if self.guessing.own is None:
            return self.guessing
        try:
            return Measure.of(self.whole, batches, kind=kind)
        except InvalidInput:  # outputs of a kind that only the user's own loss can read
            return self.guessing

    @property
    def heads(self) -> tuple[int, ...]:
        """Of every layer."""
        return tuple(block.heads for block in self.blocks)

    @cached_property
    def layer_moments(self) -> list[list[Moments]]:
        """Of every layer of the whole model."""
        return moments_of(self.whole, self.targets)

    def run(self, note: Note = lambda _: None) -> Counted:
        """All ways down."""
        self.refuse_indifferent()
        layers = []
        for layer, block in enumerate(self.blocks):
            note(f"layer {layer + 1} of {len(self.blocks)}: {block.name}")
            layers.append(self.layer(layer))
        effects = [self.effects_of(descent) for descent in layers]
        note("all layers alike")
        alike = self.together(self.uniform_way())
        note("all layers, each with its share")
        free = self.together(self.free_way(effects))
        note("other selections")
        spreads = [
            self.spread(descent, partial(self.build_alone, layer)) for layer, descent in enumerate(layers)
        ]
        spreads += [self.spread(descent, self.build) for descent in (alike, free)]
        return Counted(tuple(layers), alike, free, tuple(spreads))

    def refuse_indifferent(self) -> None:
        """A loss that is the same whatever the model would let every head go."""
        if self.judging.own is None:
            return
        least = self.build((1,) * len(self.heads))
        with_one = self.judging.losses(least.model)
        if len(np.unique(np.concatenate([with_one, self.judging.whole]))) == 1:
            raise InvalidInput(
                f"{self.judging.kind}: expected values that depend on the model, got {abs(with_one[0]):g} "
                "for every sample, with all heads as with one a layer"
            )

    def layer(self, layer: int) -> Descent:
        """One layer alone, down to one head."""
        way = [self._with(layer, count) for count in range(self.heads[layer], 0, -1)]

        def tried(counts: Counts) -> Step:
            return self.step_of(self.build_alone(layer, counts))

        found = descend(way, self.whole_step, tried, tolerance=self.tolerance)
        if len(way) - 1 not in found.steps:  # for the shares
            found.steps[len(way) - 1] = tried(way[-1])
        return found

    def together(self, way: Sequence[Counts]) -> Descent:
        """All layers."""
        return descend(
            way, self.whole_step, lambda counts: self.step_of(self.build(counts)), tolerance=self.tolerance
        )

    def uniform_way(self) -> list[Counts]:
        """As many heads in every layer, or in proportion where layers differ."""
        heads = self.heads
        if len(set(heads)) == 1:
            return [(count,) * len(heads) for count in range(heads[0], 0, -1)]
        most, layers = sum(heads), len(heads)
        return list(dict.fromkeys(uniform(heads, total) for total in range(most, layers - 1, -1)))

    def free_way(self, effects: Sequence[Effects]) -> list[Counts]:
        """The best shares of every total."""
        return [shares(effects, total) for total in range(sum(self.heads), len(self.heads) - 1, -1)]

    def effects_of(self, descent: Descent) -> Effects:
        """What a layer loses with each number of its heads."""
        most = len(descent.way)
        measured = {most - place: step.effect for place, step in descent.steps.items()}
        counts = sorted(measured)
        return without_noise(filled_in(counts, [measured[count] for count in counts]))

    def build(self, counts: Counts, folds: Sequence[int] | None = None) -> Shrunk:
        """All layers with so many heads."""
        return shrunk(self.whole, self.targets, counts, self.order, folds=folds)

    def build_alone(self, layer: int, counts: Counts, folds: Sequence[int] | None = None) -> Shrunk:
        """One layer with fewer heads."""
        moments = resampled(self.layer_moments[layer], folds)
        return alone(self.whole, layer, counts[layer], self.order(layer, moments), moments)

    @cached_property
    def whole_step(self) -> Step:
        """Nothing changed."""
        return self.step_of(Shrunk(self.whole, tuple(tuple(range(heads)) for heads in self.heads)))

    def step_of(self, found: Shrunk) -> Step:
        """A model, tried on everything that it was not fitted to."""
        unchanged = found.model is self.whole
        judged, reported, guessed = (
            np.zeros(len(measure.whole)) if unchanged else measure.rises(found.model)
            for measure in (self.judging, self.reporting, self.guessing)
        )
        same = self.effects is self.guessing
        effect = guessed if same or unchanged else self.effects.rises(found.model)
        return Step(
            kept=found.kept,
            guessed=float(guessed.mean()),
            effect=float(effect.mean()),
            judged=self.rise(judged, unchanged=unchanged),
            reported=self.rise(reported, unchanged=unchanged),
            rises=judged,
        )

    def rise(self, rises: PerSample, *, unchanged: bool = False) -> Rise:
        """With its bounds."""
        return rise_of(rises, step=0.0 if unchanged else self.step, seed=self.seed)

    def spread(self, descent: Descent, build: Callable[[Counts, Sequence[int]], Shrunk]) -> float:
        """The standard deviation of the mean rise over selections from other draws of the folds."""
        counts = descent.way[descent.place]
        if descent.place == 0:
            return 0.0
        means = [float(self.judging.rises(build(counts, folds).model).mean()) for folds in self._fold_draws()]
        return float(np.std(means, ddof=1))

    def _fold_draws(self) -> Iterator[list[int]]:
        random = np.random.default_rng(self.seed)
        for _ in range(REPLICATES):
            folds = random.integers(FOLDS, size=FOLDS)
            while len(set(folds.tolist())) < 2:  # the ridge is chosen by leaving folds out
                folds = random.integers(FOLDS, size=FOLDS)
            yield folds.tolist()

    def _with(self, layer: int, count: int) -> Counts:
        counts = list(self.heads)
        counts[layer] = count
        return tuple(counts)
