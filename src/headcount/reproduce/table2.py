"""Table 2: n = 8 numbers per head, so that the width grows with the heads."""

from headcount.reproduce.recipe import maxima
from headcount.reproduce.table import TABLE_2, table_item

ITEM = table_item(
    "table2",
    "Table 2: heads of 8 numbers each",
    "y = sum of D = 4 maxima, with h = 1..5 heads of n = 8 numbers, hidden layers of N = 32.",
    task=maxima(4),
    published=TABLE_2,
    enough=4,
    factor=1,
    heads=(1, 2, 3, 4, 5),
)
