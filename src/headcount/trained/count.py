"""How many heads a model needs: each layer alone, all layers alike, and all layers in shares of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from operator import add

import numpy as np
from torch import nn

from headcount.errors import InvalidInput
from headcount.trained.allocation import Effects, filled_in, shares, uniform, without_noise
from headcount.trained.arrays import single_threaded
from headcount.trained.attention import AttentionBlock
from headcount.trained.batches import Batch, size_of, some_of, split
from headcount.trained.choosing import Choose, ways_to_choose
from headcount.trained.descent import Candidate, Counts, Descent, Step, descend
from headcount.trained.discovery import attention_blocks
from headcount.trained.effect import Measure, Own
from headcount.trained.fitting import (
    Shrunk,
    alone,
    moments_of,
    resampled,
    ridge_of,
    shrunk,
)
from headcount.trained.importance import Gradients, Sensitivity, sensitivities
from headcount.trained.prefix import Prefix, Prefixes
from headcount.trained.refit import Moments
from headcount.trained.reselection import REPLICATES, TOGETHER, Reselected, fold_draws
from headcount.trained.rise import PerSample, Rise, bound_to_expect, rise_of, step_of
from headcount.trained.taps import Targets, targets_of

# Of the samples: fitted to and chosen with, guessed with, judged with, and reported with.
SHARES = (4, 1, 3, 2)
MIN_SAMPLES = 40
# Of distances, where none is given.
TOLERANCES = {"KL divergence": 0.05, "cosine distance": 0.02, "squared distance": 0.02}
COMPARED = 16  # samples to compare selections on: they share these, so few will do
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
    """Where the ways down end, each found by `descend`.

    - `layers`: each layer alone, the others whole.
    - `uniform`, `free`: all layers together, with as many heads each, and in shares by what each layer's
      heads are worth.
    - `ways`: by how much half of the heads change the model, by the way in which they are chosen; the best of
      them is used.
    - `reselected`: what other draws of the selection's samples change at these ends; layers first.
    """

    layers: tuple[Descent, ...]
    uniform: Descent
    free: Descent
    ways: dict[str, float]
    reselected: tuple[Reselected, ...]


class Study:
    """The measurements on one model; each way down builds models, tries them and forgets them."""

    def __init__(
        self,
        whole: nn.Module,
        samples: Samples,
        *,
        tolerance: float | None,
        loss: Own | None = None,
        metric: Own | None = None,
        distance: str | None = None,
        seed: int = 0,
    ) -> None:
        self.whole, self.samples, self.seed = whole, samples, seed
        self.blocks: tuple[AttentionBlock, ...] = attention_blocks(whole)
        self.targets: Targets = targets_of(whole, self.blocks, samples.fitted, seed=seed)

        def measure(batches: Sequence[Batch]) -> Measure:
            return Measure.of(whole, batches, loss=loss, metric=metric, kind=distance)

        self.guessing, self.judging, self.reporting = map(
            measure, (samples.guessed, samples.judged, samples.reported)
        )
        few, self.compared = some_of(samples.judged, COMPARED, seed=seed)
        self.comparing = measure(few)
        self.tolerance = TOLERANCES[self.judging.kind] if tolerance is None else tolerance
        self.effects = self._distance(samples.guessed, distance)
        self.prefixes = Prefixes(whole, self.blocks)

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

    @cached_property
    def _layer_totals(self) -> list[Moments]:
        """Of all folds together."""
        return [reduce(add, moments) for moments in self.layer_moments]

    def run(self, note: Note = lambda _: None) -> Counted:
        """All ways down."""
        note("ways to choose heads")
        note(f"{self.way} is the best of them")
        layers = []
        for layer, block in enumerate(self.blocks):
            note(f"layer {layer}, of 0 to {len(self.blocks) - 1}: {block.name}")
            layers.append(self.layer(layer))
        effects = [self.effects_of(descent) for descent in layers]
        note("all layers alike")
        alike = self.together(self.uniform_way())
        note("all layers, each with its share")
        free = self.together(self.free_way(effects))
        note("other selections")
        reselected = [
            self.reselected(descent, partial(self.build_alone, layer)) for layer, descent in enumerate(layers)
        ]
        reselected += [self.reselected(descent, self.build, draws=TOGETHER) for descent in (alike, free)]
        return Counted(tuple(layers), alike, free, self.way_effects, tuple(reselected))

    @cached_property
    def step(self) -> float:
        """The range of a discrete loss, with all heads and with one a layer; 0 for a continuous one.

        A loss that is the same whatever the model is refused: it would let every head go.
        """
        if self.judging.own is None:
            return 0.0
        least = self.build((1,) * len(self.heads))
        both = np.concatenate([self.judging.whole, self.judging.losses(least.model)])
        if np.ptp(both) == 0:
            raise InvalidInput(
                f"{self.judging.kind}: expected values that depend on the model, got {abs(both[0]):g} for "
                "every sample, with all heads as with one a layer"
            )
        return step_of(both)

    def layer(self, layer: int) -> Descent:
        """One layer alone, down to one head."""
        way = [self._with(layer, count) for count in range(self.heads[layer], 0, -1)]

        def built(counts: Counts) -> Candidate:
            return self.candidate(self.build_alone(layer, counts))

        return descend(way, built, tolerance=self.tolerance, to_the_end=True)

    def together(self, way: Sequence[Counts]) -> Descent:
        """All layers."""
        return descend(way, lambda counts: self.candidate(self.build(counts)), tolerance=self.tolerance)

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
        measured = {len(descent.way) - place: effect for place, effect in descent.effects.items()}
        counts = sorted(measured)
        return without_noise(filled_in(counts, [measured[count] for count in counts]))

    @cached_property
    def halves(self) -> Counts:
        """Half of the heads of every layer: where ways to choose are held against each other."""
        return tuple(max(1, heads // 2) for heads in self.heads)

    @cached_property
    def ways(self) -> dict[str, Choose]:
        """Ways to choose heads, each with its name."""
        return ways_to_choose(self.blocks, self.sensitivities)

    @cached_property
    def sensitivities(self) -> list[Sensitivity] | None:
        """Of the outputs to every layer; None where the model has no gradients."""
        return sensitivities(self.whole, self.blocks, self.samples.fitted, seed=self.seed)

    @property
    def gradients(self) -> list[Gradients] | None:
        """By factors on the heads of every layer."""
        return None if self.sensitivities is None else [each.gates for each in self.sensitivities]

    @cached_property
    def ridges(self) -> dict[str, list[float]]:
        """The strength of every layer's refits, by the way to choose heads: as it suits half of them."""
        layers = list(zip(self.blocks, self.layer_moments, self._layer_totals, self.halves, strict=True))
        with single_threaded():
            return {
                name: [
                    ridge_of(block, moments, choose(layer, [total], half))
                    for layer, (block, moments, total, half) in enumerate(layers)
                ]
                for name, choose in self.ways.items()
            }

    @cached_property
    def way_effects(self) -> dict[str, float]:
        """By how much half of the heads change the model, by the way in which they are chosen.

        All are refitted, and seen on samples that no fit saw: with few samples, what eliminates by them may
        follow their noise.
        """
        halves = {
            name: shrunk(self.whole, self.targets, self.halves, choose, self.ridges[name])
            for name, choose in self.ways.items()
        }
        return {name: float(self.rises(self.effects, half).mean()) for name, half in halves.items()}

    @cached_property
    def way(self) -> str:
        """The best of them."""
        return min(self.way_effects, key=lambda name: self.way_effects[name])

    def build(self, counts: Counts, folds: Sequence[int] | None = None) -> Shrunk:
        """All layers with so many heads."""
        choose = self.ways[self.way]
        return shrunk(self.whole, self.targets, counts, choose, self.ridges[self.way], folds=folds)

    def build_alone(self, layer: int, counts: Counts, folds: Sequence[int] | None = None) -> Shrunk:
        """One layer with fewer heads."""
        kept: Sequence[int] = range(counts[layer])
        with single_threaded():
            total = [self._layer_totals[layer]]
            if folds is not None:
                total = [reduce(add, resampled(self.layer_moments[layer], folds))]
            if counts[layer] < self.heads[layer]:
                kept = self.ways[self.way](layer, total, counts[layer])
            return alone(self.whole, layer, kept, total, ridge=self.ridges[self.way][layer])

    def candidate(self, found: Shrunk) -> Candidate:
        """A model, tried on samples of the selection that it was not fitted to."""
        if found.counts == self.heads:
            whole = np.zeros(len(self.judging.whole))
            step = Step(found.kept, rise_of(whole), whole)
            return Candidate(found.kept, 0.0, 0.0, lambda: step, lambda: rise_of(0 * self.reporting.whole))

        def judge() -> Step:
            rises = self.rises(self.judging, found)
            return Step(found.kept, self.rise(rises), rises)

        guesses = self.rises(self.guessing, found)
        guessed = bound_to_expect(guesses, len(self.judging.whole), step=self.step)
        same = self.effects is self.guessing
        effect = float((guesses if same else self.rises(self.effects, found)).mean())
        return Candidate(
            found.kept, guessed, effect, judge, lambda: self.rise(self.rises(self.reporting, found))
        )

    def rises(self, measure: Measure, found: Shrunk) -> PerSample:
        """How much worse than the whole model, sample by sample; below its first change it is that model."""
        return measure.rises(found.model, self.prefix(found, measure.batches))

    def prefix(self, found: Shrunk, batches: Sequence[Batch]) -> Prefix | None:
        """What it does with these batches as the whole model does."""
        return self.prefixes.of(found.first, batches) if found.first else None

    def rise(self, rises: PerSample) -> Rise:
        """With its bounds."""
        return rise_of(rises, step=self.step, seed=self.seed)

    def reselected(
        self,
        descent: Descent,
        build: Callable[[Counts, Sequence[int]], Shrunk],
        *,
        draws: int = REPLICATES,
    ) -> Reselected:
        """What selecting and refitting again with other draws of the folds changes where the way ends.

        Measured at that place, or at the first that fails where it is the whole model: what a selection
        changes there, it changes beside it.
        """
        place = descent.place or descent.failed
        if not place:
            return Reselected.of((), np.zeros((1, 0)))
        before, counts = descent.steps[place].rises[self.compared], descent.way[place]
        changes = [
            float((self.rises(self.comparing, build(counts, draw)) - before).mean())
            for draw in fold_draws(len(self.targets.folds), seed=self.seed, count=draws)
        ]
        return Reselected.of((place,), np.array(changes)[:, None])

    def _with(self, layer: int, count: int) -> Counts:
        counts = list(self.heads)
        counts[layer] = count
        return tuple(counts)
