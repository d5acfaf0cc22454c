r"""A cell of a map: one shape on one task, and what the rivals predict for it.

The rule by which a cell is judged was fixed before training. With e the lowest test error of the cell's
members, e₊(D) and e₋(D) those of one layer with h = D and h = D − 1 heads (e₋(1) = 1) on the same tokens, T
and steps:

    p = log(e / e₊) / log(e₋ / e₊);   learnt if p < 1/3, not learnt if p > 2/3, else cannot tell,

and not judged where e₋ / e₊ < 30. A threshold on e alone would misjudge: one missing coordinate weighs less
as D grows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from headcount.reproduce.recipe import Recipe, replicates
from headcount.trials.grid import Grid
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import Trial

TOKEN_DIM = 10  # at least the largest D of most maps, so that the f_i are independent
LENGTH = 16
WIDTH, WIDER = 24, 36  # E of members of several layers, and another that is tried at the limit of a law
LONGER = 3  # times the steps, tried there as well
RATES = (3e-3, 1e-2)
HIDDEN = 32

STEPS = 12_000
TRAINING = Training(steps=STEPS, batch_size=64, train_samples=50_000, test_samples=4_000, evaluate_every=200)
QUICK_TRAINING = replace(TRAINING, steps=4_000, warmup=400, train_samples=20_000)


@dataclass(frozen=True)
class Cell:
    """One shape on one task.

    - `family`: the map that it belongs to, such as `every` for a class token that reads in every layer.
    - `options`: what else the architecture has, by name.
    - `predicted`: of each rival law, the largest D that it grants this shape.
    - `steps`: how many times the usual training.
    """

    family: str
    task: TaskChoice
    length: int
    layers: int
    heads: int
    head_dim: int
    kv_heads: int | None = None
    residual_width: int | None = None
    options: tuple[tuple[str, Any], ...] = ()
    predicted: tuple[tuple[str, int], ...] = ()
    steps: int = 1

    @cached_property
    def dimension(self) -> int:
        """D of its task."""
        return self.task.dimension

    @property
    def width(self) -> int:
        """E."""
        return self.residual_width or self.heads * self.head_dim

    @property
    def name(self) -> str:
        """What tells the cell from all others of its map."""
        shared = f" kv={self.kv_heads}" if self.kv_heads else ""
        size = f"L={self.layers} h={self.heads}{shared} n={self.head_dim} E={self.width}"
        longer = f", {self.steps} × steps" if self.steps > 1 else ""
        return f"{self.family}: {size}, {self.task_name}, T={self.length}{longer}"

    @property
    def task_name(self) -> str:
        """The task with D and d, and its position sets where it has some."""
        sets = "".join(f" S={value}" for name, value in self.task.options if name == "positions")
        return f"{self.task.name} D={self.dimension} d={self.task.build().token_dim}{sets}"

    def grid(self, recipe: Recipe) -> Grid:
        """Its members: every rate and seed."""
        training = QUICK_TRAINING if recipe.quick else TRAINING
        seeds = tuple(range(recipe.first_seed, recipe.first_seed + recipe.seeds))
        more = {"kv_heads": self.kv_heads, "residual_width": self.residual_width}
        given = {name: value for name, value in more.items() if value is not None}
        return Grid(
            self.task,
            length=self.length,
            heads=self.heads,
            head_dim=self.head_dim,
            layers=self.layers,
            hidden=HIDDEN,
            learning_rate=RATES,
            seed=seeds,
            model={**dict(self.options), **given},
            training=replace(training, steps=self.steps * training.steps, warmup=None),
        )

    def trials(self, recipe: Recipe) -> tuple[Trial, ...]:
        """Its members, each seed with data of its own."""
        return replicates(self.grid(recipe))

    def reference(self, heads: int) -> "Cell":
        """One layer with so many heads on the same task, for as many steps."""
        positions = {name: value for name, value in self.options if name == "positions" and _gated(self.task)}
        return one_layer(self.task, heads, length=self.length, steps=self.steps, **positions)


def one_layer(task: TaskChoice, heads: int, *, length: int, steps: int = 1, **options: Any) -> Cell:
    """One layer of heads of 8 numbers: what every cell is held against."""
    predicted = (("h", heads),)
    return Cell(
        "one layer",
        task,
        length,
        1,
        heads,
        8,
        options=tuple(options.items()),
        predicted=predicted,
        steps=steps,
    )


def at_the_limit(cells: "Iterable[Cell]", rival: str) -> "list[Cell]":
    """Cells with the D that a law grants and with one more, whichever way they came out."""
    return [cell for cell in cells if cell.dimension - dict(cell.predicted)[rival] in (0, 1)]


def longer(cells: "Iterable[Cell]") -> "list[Cell]":
    """The same for more steps."""
    return [replace(cell, steps=LONGER) for cell in cells]


def wider(cells: "Iterable[Cell]") -> "list[Cell]":
    """The same heads, as large as they are, in a wider stream."""
    return [replace(cell, residual_width=WIDER) for cell in cells]


def references(cells: Mapping[str, Cell]) -> dict[str, Cell]:
    """The one-layer cells that the given ones are judged by."""
    found = [
        cell.reference(heads)
        for cell in cells.values()
        for heads in (cell.dimension, cell.dimension - 1)
        if heads > 0
    ]
    return named(found)


def named(cells: "list[Cell]") -> dict[str, Cell]:
    """Cells by name, each once."""
    return {cell.name: cell for cell in cells}


def maxima(dimension: int, token_dim: int = TOKEN_DIM, **options: Any) -> TaskChoice:
    """A sum of maxima along orthonormal directions."""
    return TaskChoice.of("max_sum", token_dim=token_dim, directions="orthonormal", **options).at(dimension)


def _gated(task: TaskChoice) -> bool:
    return any(name == "positions" for name, _ in task.options)
