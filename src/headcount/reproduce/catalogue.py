"""All items by name, in the order in which they are shown; each is imported when it is asked for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from headcount.reproduce.item import Item

if TYPE_CHECKING:
    from headcount.reproduce.real.item import RealItem


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
        *("figure1", "figure3", "figure4"),
        *("sensitivity", "rivals", "wide_head", "bowls"),
    ),
)
REAL_ITEMS: "Mapping[str, RealItem]" = Catalogue("headcount.reproduce.real", ("msmarco", "cifar10"))
