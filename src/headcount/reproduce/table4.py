"""Table 4: D = 3."""

from headcount.reproduce.recipe import maxima
from headcount.reproduce.table import TABLE_4, table_item

ITEM = table_item(
    "table4",
    "Table 4: three maxima",
    "y = sum of D = 3 maxima, with h = 1..4 heads that share a width of E = 32.",
    task=maxima(3),
    published=TABLE_4,
    enough=3,
    factor=3,
    heads=(1, 2, 3, 4),
    width=32,
)
