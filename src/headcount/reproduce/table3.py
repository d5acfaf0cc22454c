"""Table 3: the width E = 32 stays, n = ceil(E / h)."""

from headcount.reproduce.recipe import maxima
from headcount.reproduce.table import TABLE_3, table_item

ITEM = table_item(
    "table3",
    "Table 3: a fixed width",
    "y = sum of D = 4 maxima, h = 1..5 heads share a width of E = 32; h = 4 is that of Table 2.",
    task=maxima(4),
    published=TABLE_3,
    enough=4,
    factor=3,
    heads=(1, 2, 3, 4, 5),
    width=32,
)
