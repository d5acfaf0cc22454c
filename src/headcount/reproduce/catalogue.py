"""All items by name, in the order in which they are shown."""

from headcount.reproduce import (
    bowls,
    figure1,
    figure3,
    figure4,
    rivals,
    sensitivity,
    table2,
    table3,
    table4,
    table5,
    wide_head,
)
from headcount.reproduce.item import Item
from headcount.reproduce.real import cifar10, msmarco
from headcount.reproduce.real.item import RealItem

_MODULES = (
    *(table2, table3, table4, table5),
    *(figure1, figure3, figure4),
    *(sensitivity, rivals, wide_head, bowls),
)

ITEMS: dict[str, Item] = {module.ITEM.name: module.ITEM for module in _MODULES}
REAL_ITEMS: dict[str, RealItem] = {module.ITEM.name: module.ITEM for module in (msmarco, cifar10)}
