"""Table 5: two layers. With L·h ≥ D the conjecture asks for h = 2 where D = 4.

The paper says: no positional encoding, no layer norm. It does not say whether its first layer has a residual
connection or a feed-forward network. Without a residual the first layer must hand on every token through a
head of its own, and two heads do much worse; so there is one, and no feed-forward network.
"""

from dataclasses import replace

from headcount.reproduce.paper import TABLE_5
from headcount.reproduce.recipe import Recipe, maxima
from headcount.reproduce.table import table_item


def shorter(recipe: Recipe) -> Recipe:
    """A third of the steps at two of the rates: the first layer attends T×T."""
    training = replace(recipe.training, steps=recipe.training.steps // 300 * 100, warmup=None)
    return replace(recipe, training=training, rates=recipe.rates[-2:], lengths=recipe.cheap_lengths)


ITEM = table_item(
    "table5",
    "Table 5: two layers",
    "y = sum of D = 4 maxima, two layers of h = 1..5 heads that share a width of E = 32, with a residual.",
    task=maxima(4),
    published=TABLE_5,
    enough=2,
    fold=30,
    factor=3,
    heads=(1, 2, 3, 4, 5),
    width=32,
    layers=(2,),
    adapt=shorter,
    model=(("class_reads", "every"), ("residual", True)),
)
