"""One question about one data set: what to train next, and the curves of what is trained.

    1. Positions. The widest members with and without them: they are used only where they help.
    2. A quick sweep over all head counts, with a tenth of the steps: the early estimate.
    3. The sweep proper, of the head counts that the early estimate leaves open, of one head and the widest.

On a GPU, where one more program costs more than many more members, 2 answers 1 too, and 3 has all head counts
and enough starts not to need another try.

What comes next depends only on what the store holds, so a study that was killed resumes.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd

from headcount.data.arrays import DataSet
from headcount.engine.data import Split, data_of
from headcount.engine.member import sample_costs
from headcount.errors import InvalidInput
from headcount.estimate.curve import Curve, Tried
from headcount.estimate.members import FinishedMembers, MemberRecipe, Stage, helpful_positions, stuck_heads
from headcount.estimate.verdict import EARLY, Estimate, decide, without_doubtful_retrieval
from headcount.models.architecture import PositionInput
from headcount.models.transformer import Transformer
from headcount.results.store import Store
from headcount.trials.machine import this_machine
from headcount.trials.trial import TaskTrial

MAX_POSITION_LENGTH = 256
STEPS_ON_GPU = 12_000


@dataclass(frozen=True, eq=False)
class Study:
    """A data set, the recipe of its members and where they are kept.

    - `half`: the same task at half the length, where samples of any length can be drawn.
    - `positions`: whether the encoder may see the position of a token.
    - `thorough`: whether all head counts are trained in full, or only those that matter.
    - `finished`: the finished members, where several studies share a store.
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
    def of(
        cls,
        data: DataSet,
        folder: Path,
        *,
        max_heads: int,
        positions: bool,
        seed: int,
        steps: int | None = None,
        half: DataSet | None = None,
    ) -> "Study":
        """A study for this machine. `steps` of training in the sweep proper: None means the usual number."""
        recipe, on_gpu = replace(MemberRecipe(), max_heads=max_heads), this_machine().kind == "gpu"
        if on_gpu:
            starts = recipe.starts + recipe.more_starts
            recipe = replace(recipe, steps=STEPS_ON_GPU, starts=starts, more_starts=())
        recipe = recipe if steps is None else replace(recipe, steps=steps)
        return cls(data, Store(folder), recipe, positions=positions, thorough=on_gpu, seed=seed, half=half)

    def check(self) -> None:
        """Refuse samples that leave a split with nothing to learn from or to measure errors on."""
        for data in (self.data, self.half):
            if data is not None:
                data_of(self.recipe.trials(data, (1,), seed=self.seed)[:1])

    def next_stage(self) -> Stage | None:
        """What to train next; None when everything is."""
        for stage in (self._probe, self.quick_sweep, self.sweep, self.half_sweep):
            made = stage()
            if self._finished.outputs(made.trials) is None:
                return made
        return None

    def stages(self) -> Iterator[Stage]:
        """What to train, one stage after the other; each must be trained before the next is asked for."""
        before = None
        while (stage := self.next_stage()) is not None:
            if stage == before:
                raise InvalidInput(f"{self.store.folder}: what was just trained cannot be read back from it")
            yield stage
            before = stage

    def early_estimate(self) -> Estimate:
        """A first guess, from the quick sweep, that decides where to look closer; nothing calibrates it."""
        return without_doubtful_retrieval(decide(self.curve(self.quick_sweep().trials), law=EARLY))

    @property
    def has_quick_sweep(self) -> bool:
        """Whether there is an early estimate."""
        stages = (self._probe, self.quick_sweep)
        return all(self._finished.outputs(stage().trials) is not None for stage in stages)

    @property
    def positions_used(self) -> PositionInput:
        """Whether positions help, by the quick sweep."""
        return self._helpful(self.quick_sweep().trials)

    def frame(self) -> pd.DataFrame:
        """The rows of all members of this study."""
        stages = (self._probe(), self.quick_sweep(), self.sweep(), self.half_sweep())
        own = [trial.id for stage in stages for trial in stage.trials]
        frame = self.store.frame()
        return frame[frame["trial"].isin(own)].reset_index(drop=True)

    def best(self, heads: int | None) -> tuple[TaskTrial, Transformer]:
        """The best member with this many heads; of the widest ones where there is none, or for None."""
        trials = self.sweep().trials
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

    def test_sequences(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The first test sequences, and which of their tokens are there."""
        x = np.asarray(self.test.x)[0, :count]
        mask = np.ones(x.shape[:2], bool) if self.test.mask is None else np.asarray(self.test.mask)[0, :count]
        return x, mask

    @cached_property
    def test(self) -> Split:
        """The test split."""
        data, _ = data_of(self.recipe.trials(self.data, (1,), seed=self.seed)[:1])
        return data.test

    def curve(self, trials: Sequence[TaskTrial]) -> Curve:
        """The curves of finished members: of those with the position input that helps."""
        kind = self._helpful(trials)
        trials = [trial for trial in trials if trial.architecture.positions == kind]
        outputs, errors = self._finished.outputs(trials), self._errors(trials)
        assert outputs is not None, "asked for before its stage was trained"
        loss = trials[0].training.loss
        stacked = jnp.stack([outputs[trial.id] for trial in trials])
        costs = sample_costs(stacked, self.test, np.zeros(len(trials), int), loss)
        labels = np.asarray(self.test.y)[0].argmax(axis=-1) if self.data.classes else None
        return Curve(
            tuple(
                Tried(
                    trial.architecture.heads,
                    errors[trial.id],
                    outputs[trial.id],
                    cost,
                    None if labels is None else outputs[trial.id].argmax(axis=-1) == labels,
                )
                for trial, cost in zip(trials, costs, strict=True)
            ),
            labels=bool(self.data.classes),
        )

    def quick_sweep(self) -> Stage:
        """All head counts, with a tenth of the steps."""
        kinds = self._kinds if self.thorough else (self._helpful(self._probe().trials),)
        quick = self.recipe.quick()
        trials = [
            trial
            for kind in kinds
            for trial in self._with_another_try(replace(quick, positions=kind), self._all_heads)
        ]
        return Stage("A first look at all head counts", tuple(trials))

    def sweep(self) -> Stage:
        """The sweep proper: it grows until D and its neighbours are in it; one head is always among them."""
        heads = set(self._all_heads)
        interval = None if self.thorough else self.early_estimate().interval
        if interval is not None:
            around = range(interval[0] - 1, interval[1] + 2)
            heads &= {1, *around, self.recipe.max_heads - 1, self.recipe.max_heads}
        recipe = replace(self.recipe, positions=self.positions_used)
        challenged: set[int] = set()
        trials = self._with_another_try(recipe, sorted(heads))
        while self._finished.outputs(trials) is not None:
            found = decide(self.curve(trials))
            # From one head below the interval to one above it, none may be missing; and before D is reported,
            # D - 1 heads must have failed from other starts too.
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

    def half_sweep(self) -> Stage:
        """The quick sweep at half the length: below D its error is lower, from D on it is not."""
        if self.half is None:
            return Stage("", ())
        recipe = replace(self.recipe.quick(), positions=self.positions_used)
        trials = recipe.trials(self.half, self._all_heads, seed=self.seed)
        return Stage("The same at half the length", trials)

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

    @property
    def _kinds(self) -> tuple[PositionInput, ...]:
        return ("none", "both") if self.positions and self.data.length <= MAX_POSITION_LENGTH else ("none",)

    @property
    def _all_heads(self) -> Sequence[int]:
        return range(1, self.recipe.max_heads + 1)

    def _with_another_try(
        self, recipe: MemberRecipe, heads: Sequence[int], *, again: Collection[int] = ()
    ) -> tuple[TaskTrial, ...]:
        """More starts for some head counts, and for those that got stuck."""
        trials = recipe.trials(self.data, heads, seed=self.seed)
        if self._finished.outputs(trials) is None:
            return trials
        stuck = stuck_heads(trials, self._errors(trials), again=again)
        return (*trials, *recipe.again().trials(self.data, stuck, seed=self.seed))

    def _helpful(self, trials: Sequence[TaskTrial]) -> PositionInput:
        return helpful_positions(trials, self._errors(trials))

    @cached_property
    def _finished(self) -> FinishedMembers:
        return self.finished or FinishedMembers(self.store)

    def _errors(self, trials: Sequence[TaskTrial]) -> dict[str, float]:
        """The validation errors of finished members."""
        errors = self._finished.errors(trials)
        assert errors is not None, "asked for before its stage was trained"
        return errors
