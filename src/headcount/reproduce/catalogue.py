"""All items by name, in the order in which they are shown."""

from headcount.reproduce import bowls, figure1, figure3, figure4, table2, table3, table4, table5
from headcount.reproduce.item import Item

_MODULES = (table2, table3, table4, table5, figure1, figure3, figure4, bowls)

ITEMS: dict[str, Item] = {module.ITEM.name: module.ITEM for module in _MODULES}
