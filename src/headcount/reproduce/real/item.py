"""What the two real-data experiments have in common: accuracy over heads and lengths, and what it follows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from headcount.errors import InvalidInput
from headcount.estimate.curve import Curve, Tried
from headcount.estimate.verdict import Estimate, decide
from headcount.reproduce.claims import Cells, Verdict
from headcount.reproduce.item import Item
from headcount.reproduce.real.trial import RealData, RealTrial, samples_of
from headcount.reproduce.real.variants import GRID, OTHER_GRIDS, Trials
from headcount.reproduce.real.verdicts import panels_of, said_of, verdicts_on
from headcount.reproduce.recipe import Recipe
from headcount.results.store import Store
from headcount.validation import shown

MIN_HEAD_COUNTS = 5  # of heads: the three largest are what the others are held against
STILL_FALLS = 0.01  # of all samples


def transitions(trials: Sequence[RealTrial], store: Store) -> list[Verdict]:
    """The estimate at every length, from the outputs of members for training samples.

    Training accuracy is what the paper locates its transition by, so members are selected and compared on
    samples that they learnt from.
    """
    errors = store.frame().set_index("trial")["train_error"]
    verdicts = []
    for length in sorted({trial.length for trial in trials}):
        members = [trial for trial in trials if trial.length == length and trial.id in errors.index]
        tried = tuple(
            Tried(
                trial.architecture.heads,
                float(errors[trial.id]),
                outputs,
                surprise(outputs, right_answers(trial)[: len(outputs)]),
            )
            for trial in members
            if (outputs := store.train_outputs(trial)) is not None
        )
        claim = f"at T = {length}, the estimator sees a transition"
        if len({member.heads for member in tried}) < MIN_HEAD_COUNTS:
            verdicts.append(Verdict(claim, None, f"needs members of {MIN_HEAD_COUNTS} head counts"))
            continue
        verdicts.append(_judged(claim, decide(Curve(tried, labels=True)), tried))
    return verdicts


def _judged(claim: str, found: Estimate, tried: Sequence[Tried]) -> Verdict:
    """Width grows with these heads, so that no D is named: only from where more of both change little."""
    if found.dimension is None or found.interval is None:
        return Verdict(claim, None, found.sentence.removesuffix("."))
    here, most = (
        float(np.mean([member.validation_error for member in tried if member.heads == heads]))
        for heads in (found.dimension, max(member.heads for member in tried))
    )
    if here - most > STILL_FALLS:
        settled = f"what members put out settles at h = {found.dimension}"
        fewer = 100 * (here - most)
        return Verdict(claim, None, f"{settled}, but {fewer:.1f} points fewer are wrong with the most heads")
    if found.dimension == 1:
        return Verdict(claim, False, found.sentence.removesuffix("."))
    low, high = found.interval
    interval = f"{low} alone" if low == high else f"{low} to {high}"
    enough = f"from h = {found.dimension} on (95% interval: {interval})"
    return Verdict(
        claim, low > 1 or None, f"{enough}, more heads and the width that comes with them change little"
    )


def right_answers(trial: RealTrial) -> np.ndarray:
    """The places of the right answers among the outputs, for the training samples."""
    train = samples_of(trial).train
    return np.asarray(train.label if hasattr(train, "label") else train.y)


def surprise(scores: np.ndarray, right: np.ndarray) -> np.ndarray:
    """−log p of the right answer over that of a guess: knowing nothing costs 1 on average.

    >>> surprise(np.zeros((2, 4)), np.array([0, 3]))
    array([1., 1.])
    """
    scores = np.asarray(scores, np.float64)
    logs = scores - scores.max(axis=1, keepdims=True)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    return -logs[np.arange(len(right)), right] / np.log(scores.shape[1])


@dataclass(frozen=True)
class RealItem(Item):
    """An item whose data the user has to provide.

    - `load`: reads a folder, what a quick run needs or all; `options`: what else it takes.
    - `make`: the trials of the grid and of its controls, by name.
    - `where`: what the folder may hold, and where to get it.
    """

    load: Callable[..., RealData] = field(kw_only=True)
    options: tuple[str, ...] = field(default=(), kw_only=True)
    make: Callable[[Recipe, RealData], Trials] = field(kw_only=True)
    where: str = field(kw_only=True)
    seeds: int = field(kw_only=True)
    data: RealData | None = field(default=None, kw_only=True)

    def at(self, folder: Path | str | None, *, quick: bool = False, **options: object) -> "RealItem":
        """The item with its data read."""
        for option, value in options.items():
            if option not in self.options:
                raise InvalidInput(f"{option}: {self.name} has no such option, got {shown(value)}")
        if folder is None:
            raise InvalidInput(f"data: expected --data FOLDER with {self.where}, got none")
        return replace(self, data=self.load(folder, quick=quick, **options))

    def keeps_models(self, recipe: Recipe) -> bool:
        """The outputs of members are needed after training."""
        return True

    def look_closer(self, store: Store, recipe: Recipe) -> list[Verdict]:
        """Where the estimator sees a transition: in the grid, and in others with as many head counts."""
        named, trained = self.named(recipe), set(store.frame()["trial"])
        found = transitions(named[GRID], store)
        for variant in OTHER_GRIDS:
            members = [trial for trial in named.get(variant, ()) if trial.id in trained]
            if len({trial.architecture.heads for trial in members}) >= MIN_HEAD_COUNTS:
                found += [said_of(variant, verdict) for verdict in transitions(members, store)]
        return found

    def conditions(self, recipe: Recipe) -> str:
        """What members learn from, and for how long."""
        recipes = {trial.training for trial in self.named(recipe)[GRID]}
        (training,), data = recipes, self.data
        assert data is not None
        return (
            f"{training.train_samples:,} training samples and {training.validation_samples:,} others, "
            f"{training.steps:,} steps with {training.batch_size} samples drawn for each; "
            f"data {data.fingerprint}."
        )

    def named(self, recipe: Recipe) -> Trials:
        """The trials of every grid."""
        assert self.data is not None, "its data is read first"
        return self.make(recipe, self.data)


def real_item(
    name: str, title: str, about: str, *, train: Cells, validation: Cells, **fields: Any
) -> RealItem:
    """An experiment as an item: `train` and `validation` are the paper's shares of wrong answers.

    The other `fields` are those of `RealItem`.
    """
    return RealItem(
        name,
        title,
        about,
        grids=lambda recipe: {},
        panels=partial(panels_of, train=train, validation=validation),
        judge=partial(verdicts_on, train=train),
        **fields,
    )
