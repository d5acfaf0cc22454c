"""How members are trained for the reproduction: the paper says how many sequences, and not much more.

Not given in the paper: the directions a_i, optimizer, rate, batch, epochs, number of seeds. Chosen here:
orthonormal a_i (for tokens from N(0, I) all orthonormal choices are equivalent), AdamW with a little weight
decay, warm-up and a cosine, three rates, eight seeds. Every seed draws its own data, and is tested on as
many fresh sequences as the paper validates on. `sensitivity` varies what was chosen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import Trial
from headcount.validation import check_integer

LENGTHS = (8, 16, 32, 64, 128)  # of the paper's tables


@dataclass(frozen=True)
class Recipe:
    """What a reproduction costs: how long each member trains, how many there are, at which lengths."""

    training: Training
    rates: tuple[float, ...]
    seeds: int
    lengths: tuple[int, ...]
    quick: bool = False
    first_seed: int = 0

    @property
    def cheap_lengths(self) -> tuple[int, ...]:
        """The lengths for items that cost more than a table: in a quick run, all but the longest."""
        return self.lengths[:-1] if self.quick else self.lengths

    def with_seeds(self, seeds: int | None, *, first: int = 0) -> "Recipe":
        """The same with another number of seeds, from the first on."""
        first = check_integer("seed", first, at_least=0)
        count = self.seeds if seeds is None else check_integer("seeds", seeds, at_least=1)
        return replace(self, seeds=count, first_seed=first)

    def lighter(self, *, lengths: tuple[int, ...] | None = None) -> "Recipe":
        """Half of the seeds at the two larger rates, for items with many variants, at the lengths given."""
        return replace(
            self, seeds=max(1, self.seeds // 2), rates=self.rates[-2:], lengths=lengths or self.lengths
        )

    def light(self, quick: Mapping[str, Any], full: Mapping[str, Any]) -> "Recipe":
        """Fewer steps in smaller batches, at all lengths, for directions in T; in full at two rates."""
        training = replace(self.training, warmup=None, **(quick if self.quick else full))
        rates = (1e-2,) if self.quick else (3e-3, 1e-2)
        return replace(self, training=training, rates=rates, lengths=LENGTHS)

    @property
    def middle_length(self) -> int:
        """The length at which variants are compared."""
        return self.lengths[len(self.lengths) // 2]

    def grid(self, task: TaskChoice, *, training: Training | None = None, **axes: Any) -> Grid:
        """A grid over the recipe's lengths, rates and seeds; `axes` are those of the item."""
        seeds = tuple(range(self.first_seed, self.first_seed + self.seeds))
        chosen = {"length": self.lengths, "learning_rate": self.rates, "seed": seeds}
        return Grid(task, training=training or self.training, **{**chosen, **axes})


FULL = Recipe(
    Training(steps=30_000, weight_decay=3e-3, test_samples=2_000),
    rates=(3e-3, 1e-2, 2e-2),
    seeds=8,
    lengths=LENGTHS,
)
QUICK = Recipe(
    Training(steps=5_000, weight_decay=3e-3, test_samples=2_000),
    rates=(1e-2,),
    seeds=2,
    lengths=(8, 16, 32),
    quick=True,
)


def replicates(grid: Grid) -> tuple[Trial, ...]:
    """The trials of a grid in which a seed draws everything anew: the data as well as the start.

    With one data set for all seeds, a single hard sequence in it would affect all of them.
    """
    return tuple(
        replace(trial, training=replace(trial.training, data_seed=trial.seed)) for trial in grid.trials()
    )


def maxima(dimension: int, **options: Any) -> TaskChoice:
    """The paper's task: D maxima of tokens from N(0, I_4), along orthonormal directions by default."""
    return TaskChoice.of("max_sum", **{"token_dim": 4, "directions": "orthonormal", **options}).at(dimension)
