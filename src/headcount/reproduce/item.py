"""A table or figure of the paper to run again: what to train, what to show, what is claimed.

All of them are listed by name at the end; each is imported when it is asked for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pandas as pd

from headcount.reproduce.claims import Cells, Verdict
from headcount.reproduce.recipe import Recipe, replicates
from headcount.results.store import Store
from headcount.trials.grid import Grid
from headcount.trials.trial import Trial

if TYPE_CHECKING:
    from headcount.report.map_panel import MapPanel
    from headcount.report.panel import Panel
    from headcount.reproduce.maps.item import MapItem
    from headcount.reproduce.real.item import RealItem


@dataclass(frozen=True)
class Item:
    """`grids` names what is trained; rows of the results carry that name as `variant`.

    - `panels`, `judge`: from the rows of these grids to tables and to verdicts.
    - `paper`: the numbers to compare with, where the item is a table.
    """

    name: str
    title: str
    about: str
    grids: Callable[[Recipe], Mapping[str, Grid]]
    panels: "Callable[[pd.DataFrame], Sequence[Panel | MapPanel]]"
    judge: Callable[[pd.DataFrame], list[Verdict]]
    paper: Cells | None = None

    def named(self, recipe: Recipe) -> Mapping[str, tuple[Trial, ...]]:
        """The trials of every grid."""
        return {name: replicates(grid) for name, grid in self.grids(recipe).items()}

    def trials(self, recipe: Recipe) -> tuple[Trial, ...]:
        """Everything that is to be trained, each once."""
        return tuple(dict.fromkeys(trial for trials in self.named(recipe).values() for trial in trials))

    def keeps_models(self, recipe: Recipe) -> bool:
        """Whether weights or outputs are needed after training."""
        return False

    def conditions(self, recipe: Recipe) -> str:
        """What else a reader should know about the members, in a sentence."""
        return ""

    def look_closer(self, store: Store, recipe: Recipe) -> list[Verdict]:
        """Verdicts that need more than the frame: none, unless an item has some."""
        return []

    def rows(self, frame: pd.DataFrame, recipe: Recipe) -> pd.DataFrame:
        """The rows of a results frame that belong to this item, with the name of their grid."""
        names = [(trial.id, name) for name, trials in self.named(recipe).items() for trial in trials]
        labels = pd.DataFrame(names, columns=["trial", "variant"])
        return frame.merge(labels, on="trial", how="inner")


@dataclass(frozen=True)
class Catalogue(Mapping[str, Any]):
    """The items of one package: each is `ITEM` in a module of its name."""

    package: str
    names: tuple[str, ...]

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise KeyError(name)
        return import_module(f"{self.package}.{name}").ITEM

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names


ITEMS: Mapping[str, Item] = Catalogue(
    "headcount.reproduce",
    (
        *("table2", "table3", "table4", "table5"),
        *("figure1", "figure3", "figure4", "figure4_data"),
        *("sensitivity", "rivals", "wide_head", "deep_readout"),
        *("bowls", "bounded", "layer_norm", "planted"),
    ),
)
MAPS: "Mapping[str, MapItem]" = Catalogue(
    "headcount.reproduce.maps", ("depth", "kv_heads", "causal", "sparse")
)
REAL_ITEMS: "Mapping[str, RealItem]" = Catalogue("headcount.reproduce.real", ("msmarco", "cifar10"))
