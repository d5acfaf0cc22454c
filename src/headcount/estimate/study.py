"""One question about one data set: what to train next, and the curves of what is trained.

    1. Positions. The widest members with and without them: they are used only where they help.
    2. A quick sweep over all head counts, with a tenth of the steps: the early estimate.
    3. The sweep proper, of the head counts that the early estimate leaves open, of one head and the widest.
    4. More of it where its results ask for that: neighbours of D, other starts.

On a GPU, where one more program costs more than many more members, 2 answers 1 too, and 3 has all head counts
and enough starts not to need another try.

What comes next depends only on what the store holds, so a study that was killed, or out of time, resumes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from headcount.estimate.stages import Kind, closer_look, neighbours, other_starts
from headcount.estimate.verdict import EARLY, Estimate, decide, without_doubtful_retrieval
from headcount.models.architecture import PositionInput
from headcount.models.transformer import Transformer
from headcount.results.shards import SCHEMA
from headcount.results.store import Store
from headcount.trials.machine import this_machine
from headcount.trials.sizes import MAX_PLACES
from headcount.trials.trial import TaskTrial

STEPS_ON_GPU = 12_000


@dataclass(frozen=True, eq=False)
class Study:
    """A data set, the recipe of its members and where they are kept.

    - `half`: the same task at half the length, where samples of any length can be drawn.
    - `positions`: whether the encoder may see the position of a token.
    - `thorough`: whether all head counts are trained in full, or only those that matter.
    - `short`: whether the sweep proper has a quarter of its steps, from one start.
    - `finished`: the finished members, where several studies share a store.
    - `made`: members made before: a study asks for them again and again, and the key of each is a hash.
    """

    data: DataSet
    store: Store
    recipe: MemberRecipe
    positions: bool = True
    thorough: bool = False
    short: bool = False
    seed: int = 0
    half: DataSet | None = None
    finished: FinishedMembers | None = None
    made: dict[tuple[object, ...], tuple[TaskTrial, ...]] = field(default_factory=dict, repr=False)

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
        quick: bool = False,
        half: DataSet | None = None,
    ) -> "Study":
        """A study for this machine. `steps` of training in the sweep proper: None means the usual number."""
        recipe, on_gpu = replace(MemberRecipe(), max_heads=max_heads), this_machine().kind == "gpu"
        if on_gpu:
            starts = recipe.starts + recipe.more_starts
            recipe = replace(recipe, steps=STEPS_ON_GPU, starts=starts, more_starts=())
        recipe = recipe if steps is None else replace(recipe, steps=steps)
        store, how = Store(folder), {"positions": positions, "thorough": on_gpu, "short": quick}
        return cls(data, store, recipe, seed=seed, half=half, **how)  # type: ignore[arg-type]  # all are bool

    def check(self) -> None:
        """Refuse samples that leave a split with nothing to learn from or to measure errors on."""
        for data in (self.data, self.half):
            if data is not None:
                data_of(self._members(self.recipe, (1,), data)[:1])

    def next_stage(self) -> Stage | None:
        """What to train next; None when everything is."""
        return next((stage for stage in self._reached() if not self._is_trained(stage)), None)

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
        trials = self._last_trained(self._first_looks())
        assert trials is not None, "asked for before the first look was trained"
        return replace(without_doubtful_retrieval(decide(self.curve(trials), law=EARLY)), early=True)

    @property
    def has_quick_sweep(self) -> bool:
        """Whether there is an early estimate."""
        return self._positions_known and self._last_trained(self._first_looks()) is not None

    @property
    def has_sweep(self) -> bool:
        """Whether the sweep proper is trained, be it without what its results ask for."""
        return self.has_quick_sweep and self._last_trained(self._closer_looks()) is not None

    @property
    def deciding(self) -> tuple[TaskTrial, ...]:
        """The members whose curves decide: of the sweep proper; of the quick one before there is one."""
        looks = self._closer_looks() if self.has_sweep else self._first_looks()
        return self._last_trained(looks) or ()

    @property
    def positions_used(self) -> PositionInput:
        """Whether positions help, by the quick sweep."""
        return self._helpful(self.quick_sweep().trials)

    def frame(self) -> pd.DataFrame:
        """The rows of all members of this study."""
        own = [trial.id for stage in self._reached() for trial in stage.trials]
        nothing_begun = not self.store.folder.exists()
        frame = SCHEMA.empty_table().to_pandas() if nothing_begun else self.store.frame()
        return frame[frame["trial"].isin(own)].reset_index(drop=True)

    def best(self, heads: int | None) -> tuple[TaskTrial, Transformer]:
        """The best member with this many heads; of the widest ones where there is none, or for None."""
        kind = self._helpful(self.deciding)
        trials = [trial for trial in self.deciding if trial.architecture.positions == kind]
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
        data, _ = data_of(self._members(self.recipe, (1,))[:1])
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
        *_, last = self._first_looks()
        return last

    def sweep(self) -> Stage:
        """The sweep proper: it grows until D and its neighbours are in it; one head is always among them."""
        *_, last = self._closer_looks()
        return last

    def half_sweep(self) -> Stage:
        """The quick sweep at half the length: below D its error is lower, from D on it is not."""
        if self.half is None:
            return Stage("", ())
        recipe = replace(self.recipe.quick(), positions=self.positions_used)
        trials = self._members(recipe, self._all_heads, self.half)
        reason = "with fewer heads than D the error falls with the length"
        return Stage("The same at half the length", trials, reason, self.number("half length"))

    def number(self, kind: Kind) -> int:
        """Which of the kinds of stages that this study may have it is, counted from 1."""
        return self.kinds_of_stages.index(kind) + 1

    @property
    def kinds_of_stages(self) -> tuple[Kind, ...]:
        """The kinds of stages that this study may have, in order."""
        may_have: dict[Kind, bool] = {
            "positions": not self.thorough and len(self._kinds) > 1,
            "first look": True,
            "first look again": bool(self.recipe.more_starts),
            "closer look": True,
            "more": bool(self.recipe.more_starts) or not self.thorough,
            "half length": self.half is not None,
        }
        return tuple(kind for kind, may in may_have.items() if may)

    def likely_after(self, stage: Stage) -> tuple[TaskTrial, ...]:
        """The members that usually come after this stage: a guess, for the time that they take."""
        quick, heads = self.recipe.quick(), self._all_heads
        usual = heads if self.thorough else sorted({1, 2, 3, *heads[-2:]} & set(heads))
        of_kinds: dict[Kind, tuple[TaskTrial, ...]] = {
            "first look": quick.trials(self.data, heads) * (len(self._kinds) if self.thorough else 1),
            "closer look": self._recipe.trials(self.data, usual),
            "more": self._recipe.again().trials(self.data, heads[:1]),
            "half length": quick.trials(self.half or self.data, heads),
        }
        later = self.kinds_of_stages[stage.number :]
        return tuple(trial for kind in later for trial in of_kinds.get(kind, ()))

    def finished_of(self, stage: Stage) -> dict[str, float]:
        """The validation errors of its members that are finished."""
        return self._finished.among(stage.trials)

    def _members(
        self, recipe: MemberRecipe, heads: Iterable[int], data: DataSet | None = None
    ) -> tuple[TaskTrial, ...]:
        """Every start of every number of heads; on the data of the study, or on others."""
        chosen, counts = self.data if data is None else data, tuple(heads)
        key = (recipe, counts, self.seed, id(chosen))  # which its members keep alive
        if key not in self.made:
            self.made[key] = recipe.trials(chosen, counts, seed=self.seed)
        return self.made[key]

    def _reached(self) -> Iterator[Stage]:
        """All stages in order, up to the first that is not trained."""
        for stages in (self._probes, self._first_looks, self._closer_looks, self._half_sweeps):
            for stage in stages():
                yield stage
                if not self._is_trained(stage):
                    return

    def _probes(self) -> Iterator[Stage]:
        probe = self._probe()
        if probe.trials:
            yield probe

    def _half_sweeps(self) -> Iterator[Stage]:
        if self.half is not None:
            yield self.half_sweep()

    def _first_looks(self) -> Iterator[Stage]:
        """The quick sweep, and then with other starts for the head counts that got stuck."""
        kinds = self._kinds if self.thorough else (self._helpful(self._probe().trials),)
        recipes = [replace(self.recipe.quick(), positions=kind) for kind in kinds]
        of_kinds = [self._members(recipe, self._all_heads) for recipe in recipes]
        trials = tuple(trial for of_kind in of_kinds for trial in of_kind)
        number = self.number("first look")
        look = Stage(
            "A first look at all head counts", trials, "it shows which ones to train in full", number
        )
        yield look
        if not self._is_trained(look) or not self.recipe.more_starts:
            return
        stuck = [stuck_heads(of_kind, self._errors(of_kind)) for of_kind in of_kinds]
        again = [self._members(recipe.again(), heads) for recipe, heads in zip(recipes, stuck, strict=True)]
        if any(stuck):
            more, heads = tuple(trial for each in again for trial in each), sorted(set().union(*stuck))
            number = self.number("first look again")
            yield other_starts((*trials, *more), heads, look="First look: other", number=number)

    def _closer_looks(self) -> Iterator[Stage]:
        """The sweep proper, and then with the head counts and the starts that its results ask for."""
        heads, tried, challenged = set(self._left_open()), set[int](), set[int]()
        recipe = replace(self._recipe, positions=self.positions_used)

        def trials() -> tuple[TaskTrial, ...]:
            again = self._members(recipe.again(), sorted(tried))
            return (*self._members(recipe, sorted(heads)), *again)

        stage = closer_look(
            trials(),
            None if self.thorough else self.early_estimate(),
            number=self.number("closer look"),
        )
        yield stage
        while self._is_trained(stage):
            base = self._members(recipe, sorted(heads))
            stuck = set(stuck_heads(base, self._errors(base), again=challenged)) - tried
            if stuck and recipe.more_starts:
                tried |= stuck
                stage = other_starts(
                    trials(), sorted(stuck), challenged=challenged, number=self.number("more")
                )
                yield stage
                if not self._is_trained(stage):
                    return
            found = decide(self.curve(stage.trials))
            # From one head below the interval to one above it, none may be missing; and before D is reported,
            # D - 1 heads must have failed from other starts too.
            low, high = found.interval or (1, 1)
            missing = set(self._all_heads) & set(range(low - 1, high + 2)) - heads
            challenge = {(found.dimension or found.likeliest) - 1} - challenged - {0}
            if not missing and not challenge:
                return
            new = (missing | challenge) - heads
            heads |= new
            challenged |= challenge
            if new:
                stage = neighbours(trials(), new, number=self.number("more"))
                yield stage

    def _left_open(self) -> Iterable[int]:
        """The head counts to look at closely, from the first look."""
        interval = None if self.thorough else self.early_estimate().interval
        if interval is None:
            return self._all_heads
        around = range(interval[0] - 1, interval[1] + 2)
        return set(self._all_heads) & {1, *around, self.recipe.max_heads - 1, self.recipe.max_heads}

    def _probe(self) -> Stage:
        """The widest members with and without positions; on a GPU the quick sweep has them anyway."""
        kinds = () if self.thorough or len(self._kinds) == 1 else self._kinds
        quick = self.recipe.quick()
        trials = [
            trial
            for kind in kinds
            for trial in self._members(replace(quick, positions=kind), (quick.max_heads,))
        ]
        return Stage("With and without positions", tuple(trials), "they are used only where they help")

    @property
    def _recipe(self) -> MemberRecipe:
        """Of the sweep proper."""
        return self.recipe.shortened() if self.short else self.recipe

    @property
    def _positions_known(self) -> bool:
        return self._finished.outputs(self._probe().trials) is not None

    def _is_trained(self, stage: Stage) -> bool:
        return self._finished.outputs(stage.trials) is not None

    def _last_trained(self, stages: Iterable[Stage]) -> tuple[TaskTrial, ...] | None:
        """The members of the last of these stages that is trained; each holds those of the ones before it."""
        trained = [stage.trials for stage in stages if self._is_trained(stage)]
        return trained[-1] if trained else None

    @property
    def _kinds(self) -> tuple[PositionInput, ...]:
        return ("none", "both") if self.positions and self.data.length <= MAX_PLACES else ("none",)

    @property
    def _all_heads(self) -> Sequence[int]:
        return range(1, self.recipe.max_heads + 1)

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
