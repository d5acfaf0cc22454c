"""One question put to one data set: what to train next, and what it says so far.

    1. Positions. The widest members with and without them: they are used only where they help.
    2. A quick sweep over all head counts, with a tenth of the steps: the early estimate.
    3. The sweep proper, of the head counts that the early estimate leaves open, and of the widest.

On a GPU, where one more program costs more than many more members, 2 answers 1 too, and 3 has all head counts
and starts enough not to need another try.

What is next follows from what the store holds and from nothing else, so a study that was killed goes on.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float

from headcount.data.arrays import DataSet
from headcount.engine.data import Split, data_of
from headcount.engine.device import this_machine
from headcount.engine.metrics import sample_costs
from headcount.errors import InvalidInput
from headcount.estimate.collisions import SEQUENCES, Witness, can_be_moved, collisions
from headcount.estimate.curve import Curve, Tried
from headcount.estimate.finished import FinishedMembers
from headcount.estimate.judge import EARLY
from headcount.estimate.lengths import over_groups, over_two
from headcount.estimate.members import MemberRecipe
from headcount.estimate.salience import FAINT, GOOD_FIT, QUANTILE, SALIENT, Salience, salience
from headcount.estimate.verdict import (
    Estimate,
    adjust_for_collisions,
    adjust_for_pooling,
    adjust_for_salience,
    decide,
)
from headcount.models.architecture import Architecture, PositionInput
from headcount.models.transformer import Transformer
from headcount.results.store import Store
from headcount.trials.trial import TaskTrial

MAX_POSITION_LENGTH = 256
STEPS_ON_GPU = 12_000
# Positions are used where they take the error, plus this, below that share of it.
SLACK, SHARE = 3e-3, 0.8
STUCK = 1.2  # times the error of fewer heads
SALIENT_SEQUENCES, SHOWN_SEQUENCES = 512, 3


@dataclass(frozen=True)
class Stage:
    """Members to be trained, and what for."""

    name: str
    trials: tuple[TaskTrial, ...]


@dataclass(frozen=True, eq=False)
class Study:
    """A data set, the recipe of its members and where they are kept.

    - `half`: the same task at half the length, where it can be asked for samples of any.
    - `positions`: whether the encoder may be told the position of a token.
    - `thorough`: whether all head counts are trained in full, or only those that matter.
    - `finished`: what the store was seen to hold, where several studies share one.
    """

    data: DataSet
    store: Store
    recipe: MemberRecipe
    positions: bool = True
    thorough: bool = False
    seed: int = 0
    half: DataSet | None = None
    finished: FinishedMembers | None = None

    @classmethod
    def of(cls, data: DataSet, folder: Path, *, max_heads: int, positions: bool, seed: int) -> "Study":
        """A study for this machine."""
        recipe, on_gpu = replace(MemberRecipe(), max_heads=max_heads), this_machine().kind == "gpu"
        if on_gpu:
            starts = recipe.starts + recipe.more_starts
            recipe = replace(recipe, steps=STEPS_ON_GPU, starts=starts, more_starts=())
        return cls(data, Store(folder), recipe, positions=positions, thorough=on_gpu, seed=seed)

    def check(self) -> None:
        """Refuse samples that leave a split with nothing to learn from or to judge by."""
        for data in (self.data, self.half):
            if data is not None:
                data_of(self.recipe.trials(data, (1,), seed=self.seed)[:1])

    def next_stage(self) -> Stage | None:
        """What must be trained before more can be said; None when all is."""
        for stage in (self._probe, self._quick_sweep, self._sweep, self._half_sweep):
            made = stage()
            if self._outputs(made.trials) is None:
                return made
        return None

    def stages(self) -> Iterator[Stage]:
        """What must be trained, one stage after the other; each before the next is asked for."""
        before = None
        while (stage := self.next_stage()) is not None:
            if stage == before:
                raise InvalidInput(f"{self.store.folder}: what was just trained cannot be read back from it")
            yield stage
            before = stage

    def early_estimate(self) -> Estimate:
        """What the quick sweep says."""
        return decide(self._curve(self._quick_sweep().trials), judge=EARLY)

    def estimate(self) -> Estimate:
        """What the whole sweep says, with the other evidence beside it."""
        curve, matter = self._curve(self._sweep().trials), self.salience()
        faint = matter.counts(FAINT)
        share = float(np.median(faint / self._visible(len(faint))))
        found = adjust_for_pooling(decide(curve), share, count=float(np.median(faint)))
        lowest = min((point.value for point in found.errors), default=np.inf)
        fits = not self.data.classes and lowest < GOOD_FIT
        tokens = matter.typical(SALIENT, QUANTILE)
        found = adjust_for_salience(found, tokens=tokens if fits else None)
        pairs = self._collisions(found)
        early = self.early_estimate()
        evidence = {
            "early": {"dimension": early.dimension, "interval": early.interval, "verdict": early.verdict},
            "salience": {
                "threshold": SALIENT,
                "quantile": QUANTILE,
                "tokens": tokens,
                "fits_well_enough": fits,
                "share_of_tokens": share,
            },
            "collisions": [asdict(pair) for pair in pairs],
            "length": self.by_length(),
        }
        found = adjust_for_collisions(found, pairs)
        return replace(found, evidence=evidence, machine=this_machine().name)

    @property
    def has_quick_sweep(self) -> bool:
        """Whether there is an early estimate."""
        probed = self._outputs(self._probe().trials) is not None
        return probed and self._outputs(self._quick_sweep().trials) is not None

    @property
    def positions_used(self) -> PositionInput:
        """Whether positions help, by the quick sweep."""
        return self._kind_in(self._quick_sweep().trials)

    def frame(self) -> pd.DataFrame:
        """The rows of all members of this study."""
        stages = (self._probe(), self._quick_sweep(), self._sweep(), self._half_sweep())
        mine = [trial.id for stage in stages for trial in stage.trials]
        frame = self.store.frame()
        return frame[frame["trial"].isin(mine)].reset_index(drop=True)

    def salience(self) -> Salience:
        """The tokens that matter to the best of the widest members."""
        x, mask = self._some(SALIENT_SEQUENCES)
        return salience(self._best(None)[1], x, mask)

    def by_length(self) -> dict[str, Any] | None:
        """How the error grows with the length, per number of heads, where lengths differ or can be varied."""
        if self.half is not None:
            shorter = replace(self, data=self.half, half=None)
            errors = (
                study._curve(trials).errors()
                for study, trials in (
                    (shorter, self._half_sweep().trials),
                    (self, self._quick_sweep().trials),
                )
            )
            return over_two(*errors, lengths=(self.half.length, self.data.length))
        if self._test.mask is None:
            return None
        lengths = np.asarray(self._test.mask)[0].sum(axis=1)
        targets = None if self.data.classes else np.asarray(self._test.y)[0]
        return over_groups(self._curve(self._sweep().trials), lengths, targets)

    def _collisions(self, found: Estimate) -> tuple[Witness, ...]:
        """Pairs that D − 1 and D heads cannot tell apart, where the sweep leaves D in doubt."""
        dimension = found.dimension or 1
        in_doubt = found.interval is not None and found.interval[0] < found.interval[1]
        if dimension == 1 or not in_doubt or not can_be_moved(self.data):
            return ()
        wide, (x, _) = self._best(None)[1], self._some(SEQUENCES)
        return tuple(collisions(self._best(heads)[1], wide, x) for heads in (dimension - 1, dimension))

    def looks(self, heads: int | None) -> tuple[Architecture, Float[np.ndarray, "sample head token"]]:
        """The best member of so many heads (None: of the most), and where its heads look."""
        trial, model = self._best(heads)
        x, mask = self._some(SHOWN_SEQUENCES)
        seen = jnp.ones(x.shape[:2], bool) if mask is None else jnp.asarray(mask)
        look = jax.jit(jax.vmap(lambda x, mask: model.attention_weights(x, mask=mask)))
        weights = look(jnp.asarray(x), seen)
        return trial.architecture, np.nan_to_num(np.asarray(weights))

    def _best(self, heads: int | None) -> tuple[TaskTrial, Transformer]:
        trials = self._sweep().trials
        counts = {trial.architecture.heads for trial in trials}
        wanted = heads if heads in counts else max(counts)
        errors = self._errors(trials)
        best = min(
            (trial for trial in trials if trial.architecture.heads == wanted),
            key=lambda trial: np.nan_to_num(errors[trial.id], nan=np.inf),
        )
        model = self.store.model(best)
        assert model is not None, "its outputs were kept with it"
        return best, model

    def _some(self, count: int) -> tuple[np.ndarray, np.ndarray | None]:
        """The first test sequences."""
        test = self._test
        mask = None if test.mask is None else np.asarray(test.mask)[0, :count]
        return np.asarray(test.x)[0, :count], mask

    @property
    def _kinds(self) -> tuple[PositionInput, ...]:
        return ("none", "both") if self.positions and self.data.length <= MAX_POSITION_LENGTH else ("none",)

    def _probe(self) -> Stage:
        """The widest members with and without positions; on a GPU the quick sweep has them anyway."""
        kinds = () if self.thorough or len(self._kinds) == 1 else self._kinds
        quick = self.recipe.quick()
        trials = [
            trial
            for kind in kinds
            for trial in replace(quick, positions=kind).trials(self.data, (quick.max_heads,), seed=self.seed)
        ]
        return Stage("Do positions help?", tuple(trials))

    def _quick_sweep(self) -> Stage:
        kinds = self._kinds if self.thorough else (self._helpful(self._probe().trials),)
        quick = self.recipe.quick()
        trials = [
            trial
            for kind in kinds
            for trial in self._with_another_try(replace(quick, positions=kind), self._all_heads)
        ]
        return Stage("A first look at all head counts", tuple(trials))

    def _sweep(self) -> Stage:
        heads = set(self._all_heads)
        interval = None if self.thorough else self.early_estimate().interval
        if interval is not None:
            around = range(interval[0] - 1, interval[1] + 2)
            heads &= {*around, self.recipe.max_heads - 1, self.recipe.max_heads}
        recipe = replace(self.recipe, positions=self.positions_used)
        challenged: set[int] = set()
        trials = self._with_another_try(recipe, sorted(heads))
        while self._outputs(trials) is not None:
            found = decide(self._curve(trials))
            # From one head below the interval to one above it, none may be missing; and before D is told,
            # D - 1 heads have failed from other starts too.
            low, high = found.interval or (1, 1)
            missing = set(self._all_heads) & set(range(low - 1, high + 2)) - heads
            likely = max(found.probabilities, key=lambda count: found.probabilities[count], default=1)
            challenge = {(found.dimension or likely) - 1} - challenged - {0}
            if not missing and not challenge:
                break
            heads |= missing | challenge
            challenged |= challenge
            trials = self._with_another_try(recipe, sorted(heads), again=challenged)
        return Stage("A closer look", trials)

    def _half_sweep(self) -> Stage:
        """The quick sweep at half the length: below D its error is lower, from D on it is not."""
        if self.half is None:
            return Stage("", ())
        recipe = replace(self.recipe.quick(), positions=self.positions_used)
        trials = recipe.trials(self.half, self._all_heads, seed=self.seed)
        return Stage("The same at half the length", trials)

    @property
    def _all_heads(self) -> Sequence[int]:
        return range(1, self.recipe.max_heads + 1)

    def _kind_in(self, trials: Sequence[TaskTrial]) -> PositionInput:
        """The positions that these members have, or of two kinds the better one."""
        kinds = {trial.architecture.positions for trial in trials}
        return self._helpful(trials) if len(kinds) > 1 else kinds.pop()

    def _helpful(self, trials: Sequence[TaskTrial]) -> PositionInput:
        """The positions that help, by the widest of these members."""
        errors, best = self._errors(trials), dict[PositionInput, float]()
        widest = max((trial.architecture.heads for trial in trials), default=0)
        for trial in trials:
            if trial.architecture.heads == widest:
                kind = trial.architecture.positions
                best[kind] = min(best.get(kind, np.inf), np.nan_to_num(errors[trial.id], nan=np.inf))
        helps = "both" in best and best["both"] + SLACK < SHARE * (best["none"] + SLACK)
        return "both" if helps else "none"

    def _with_another_try(
        self, recipe: MemberRecipe, heads: Sequence[int], *, again: Collection[int] = ()
    ) -> tuple[TaskTrial, ...]:
        """More starts for some head counts, and for those that did worse than fewer heads: they got stuck."""
        trials = recipe.trials(self.data, heads, seed=self.seed)
        if self._outputs(trials) is None:
            return trials
        errors, lowest, stuck = self._errors(trials), np.inf, list[int]()
        for count in heads:
            mine = [errors[trial.id] for trial in trials if trial.architecture.heads == count]
            best = float(np.nanmin([*mine, np.inf]))
            if count in again or best > STUCK * lowest + SLACK / 3:
                stuck.append(count)
            lowest = min(lowest, best)
        return (*trials, *recipe.again().trials(self.data, stuck, seed=self.seed))

    @cached_property
    def _test(self) -> Split:
        data, _ = data_of(self.recipe.trials(self.data, (1,), seed=self.seed)[:1])
        return data.test

    @cached_property
    def _finished(self) -> FinishedMembers:
        return self.finished or FinishedMembers(self.store)

    def _outputs(self, trials: Sequence[TaskTrial]) -> dict[str, np.ndarray] | None:
        """What the members put out for the test samples, if all of them are finished."""
        return self._finished.outputs(trials)

    def _errors(self, trials: Sequence[TaskTrial]) -> dict[str, float]:
        """The validation errors of finished members."""
        errors = self._finished.errors(trials)
        assert errors is not None, "asked for before its stage was trained"
        return errors

    def _curve(self, trials: Sequence[TaskTrial]) -> Curve:
        kind = self._kind_in(trials)
        trials = [trial for trial in trials if trial.architecture.positions == kind]
        outputs, errors = self._outputs(trials), self._errors(trials)
        assert outputs is not None, "asked for before its stage was trained"
        loss = trials[0].training.loss
        stacked = jnp.stack([outputs[trial.id] for trial in trials])
        costs = sample_costs(stacked, self._test, np.zeros(len(trials), int), loss)
        return Curve(
            tuple(
                Tried(trial.architecture.heads, errors[trial.id], outputs[trial.id], cost)
                for trial, cost in zip(trials, costs, strict=True)
            ),
            labels=bool(self.data.classes),
        )

    def _visible(self, count: int) -> np.ndarray:
        """How many tokens the first test sequences have."""
        x, mask = self._some(count)
        return np.full(len(x), self.data.length) if mask is None else mask.sum(axis=1)
