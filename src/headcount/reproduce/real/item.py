"""What the two real-data experiments have in common: accuracy over heads and lengths, and what it follows."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from headcount.errors import InvalidInput
from headcount.reproduce.claims import Cells, Verdict
from headcount.reproduce.item import Item
from headcount.reproduce.real.estimating import MIN_HEAD_COUNTS, transitions
from headcount.reproduce.real.trial import RealData
from headcount.reproduce.real.variants import GRID, OTHER_GRIDS, Trials
from headcount.reproduce.real.verdicts import panels_of, said_of, verdicts_on
from headcount.reproduce.recipe import Recipe
from headcount.results.store import Store
from headcount.validation import shown


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
