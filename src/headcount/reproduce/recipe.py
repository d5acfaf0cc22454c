"""How members are trained for the reproduction: the paper says how many sequences, and not much more.

Not given in the paper: the directions a_i, optimizer, rate, batch, epochs, number of seeds. Chosen here:
orthonormal a_i (for tokens from N(0, I) they stand for every orthonormal choice, so nothing is left to
draw), AdamW with a little weight decay, warm-up and a cosine, three rates, eight seeds. `sensitivity` varies
what was chosen.
"""

from dataclasses import dataclass, replace
from typing import Any

from headcount.engine import Grid, TaskChoice, Training
from headcount.reproduce.paper import LENGTHS
from headcount.validation import whole_number


@dataclass(frozen=True)
class Recipe:
    """What a reproduction costs: how long each member trains, how many there are, at which lengths."""

    training: Training
    rates: tuple[float, ...]
    seeds: int
    lengths: tuple[int, ...]
    polish_steps: int

    def with_seeds(self, seeds: int | None) -> "Recipe":
        """The same with another number of seeds."""
        return self if seeds is None else replace(self, seeds=whole_number("seeds", seeds, at_least=1))

    def grid(self, task: TaskChoice, *, training: Training | None = None, **axes: Any) -> Grid:
        """A grid over the recipe's lengths, rates and seeds; `axes` are those of the item."""
        chosen = {"length": self.lengths, "learning_rate": self.rates, "seed": tuple(range(self.seeds))}
        return Grid(task, training=training or self.training, **{**chosen, **axes})


FULL = Recipe(
    Training(steps=30_000, weight_decay=3e-3),
    rates=(3e-3, 1e-2, 2e-2),
    seeds=8,
    lengths=LENGTHS,
    polish_steps=50,
)
QUICK = Recipe(
    Training(steps=5_000, weight_decay=3e-3, test_samples=4_000),
    rates=(1e-2,),
    seeds=2,
    lengths=(8, 16, 32),
    polish_steps=0,
)


def maxima(dimension: int, **options: Any) -> TaskChoice:
    """The paper's task: D maxima of tokens from N(0, I_4), along orthonormal directions unless said."""
    return TaskChoice.of("max_sum", **{"token_dim": 4, "directions": "orthonormal", **options}).at(dimension)
