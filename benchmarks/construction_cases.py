"""The table of cases that both constructions must pass, from the smallest to the largest."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from headcount.tasks.registry import build
from headcount.tasks.retrieval import RetrievalTask

LENGTHS = (4, 16, 64)
OUTERS = ("bowls_product", "bowls_ratio", "bowls_soft_maximum", "bowls_several")


@dataclass(frozen=True)
class Case:
    """One task at one length, the error that is allowed, and how it is to be built."""

    construction: str
    task: str
    dimension: int
    token_dim: int
    length: int
    positions: str
    epsilon: float

    @property
    def key(self) -> str:
        """A name that no other case has."""
        return "-".join(map(str, vars(self).values())).replace(" ", "_")

    @property
    def options(self) -> dict[str, Any]:
        """What the task is built with."""
        halves = ("first half", "second half")
        both = [halves[index % 2] for index in range(self.dimension)]
        options: dict[str, Any] = {"positions": both if self.positions == "both halves" else self.positions}
        if self.task != "extremes":
            options |= {"dimension": self.dimension, "token_dim": self.token_dim}
        if self.task == "max_sum":
            options["smallest_angle"] = 20 if self.token_dim > 1 else 0  # a line has two directions
        if self.task.startswith("bowls"):
            options["smallest_distance"] = 0.05
        return options

    def build(self) -> RetrievalTask:
        """The task, restricted to [0,1]^d."""
        return replace(build(self.task, **self.options), distribution="uniform")


def cases() -> Iterator[Case]:
    """Every case; those of `memorise` that do not fit into memory are in the table too, to be refused."""
    sets = ("all", "first half", "both halves")
    for construction, task, length, positions in product(("specialise", "memorise"), _tasks(), LENGTHS, sets):
        name, dimension, _ = task
        if positions != "both halves" or dimension > 1:
            for epsilon in _epsilons(name, dimension):
                yield Case(construction, *task, length, positions, epsilon)


def quick() -> Iterator[Case]:
    """A few cases that between them have every task, every choice of positions and both constructions."""
    for construction, length in (("specialise", 16), ("memorise", 4)):
        yield Case(construction, "bowls", 1, 1, length, "all", 1e-1)
        yield Case(construction, "bowls", 3, 2, length, "both halves", 1e-1)
        yield Case(construction, "max_sum", 2, 4, length, "first half", 1e-1)
        yield Case(construction, "extremes", 2, 1, length, "both halves", 1e-1)
        yield Case(construction, "bowls_several", 2, 2, length, "all", 5e-2)
    for name in OUTERS[:3]:
        yield Case("specialise", name, 2, 2, 4, "first half", 5e-2)


def _tasks() -> Iterator[tuple[str, int, int]]:
    for name, token_dims in (("bowls", (1, 2, 3)), ("max_sum", (1, 2, 3, 4))):
        for token_dim, dimension in product(token_dims, range(1, 7)):
            yield name, dimension, token_dim
    yield "extremes", 2, 1
    for name, dimension in product(OUTERS, (1, 2, 3)):
        yield name, dimension, 2


def _epsilons(name: str, dimension: int) -> tuple[float, ...]:
    if name in OUTERS:
        return (5e-2,)
    return (1e-1, 1e-2, 1e-3) if name == "bowls" and dimension <= 3 else (1e-1, 1e-2)
