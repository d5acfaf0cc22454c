"""Table 5: two layers. With L·h ≥ D the conjecture asks for h = 2 where D = 4.

The paper says: no positional encoding, no layer norm. It does not say whether its first layer has a residual
connection or a feed-forward network, nor whether the class token reads in it. Here the class token reads in
both, with residuals: a layer of h heads then serves twice, at the class token and at the tokens. In the paper
two layers of one head come as far as one layer of three (its Tables 5 and 3), as if it were so there too.
"""

from dataclasses import replace
from math import gcd
from typing import Any

from headcount.reproduce.recipe import Recipe, maxima
from headcount.reproduce.table import TABLE_5, table_item

TWO_LAYERS: dict[str, Any] = {
    "width": 32,
    "layers": (2,),
    "model": (("class_reads", "every"), ("residual", True)),
}


def shorter(recipe: Recipe) -> Recipe:
    """A quarter of the batch, judged less often, at the two smaller rates: its first layer attends T×T."""
    training = recipe.training
    steps = training.steps * 7 // 1000 * 100 if recipe.quick else training.steps
    training = replace(
        training, steps=steps, batch_size=training.batch_size // 4, evaluate_every=gcd(steps, 500)
    )
    return replace(recipe, training=training, rates=recipe.rates[:2], lengths=recipe.cheap_lengths)


ITEM = table_item(
    "table5",
    "Table 5: two layers",
    "y = sum of D = 4 maxima, two layers of h = 1..5 heads that share a width of E = 32.",
    task=maxima(4),
    published=TABLE_5,
    enough=2,
    fold=30,
    factor=3,
    heads=(1, 2, 3, 4, 5),
    adapt=shorter,
    **TWO_LAYERS,
)
