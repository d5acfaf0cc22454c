"""A grid: every combination of some axes, as trials."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from math import ceil
from typing import Any

import numpy as np

from headcount.models.architecture import Architecture
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import TaskTrial, Trial
from headcount.validation import check_choice, check_integer, expected

# Options of a model that neither the task nor an axis of the grid decides.
OPTIONS = tuple(
    option.name
    for option in fields(Architecture)
    if option.name not in {"token_dim", "output_dim", "heads", "head_dim", "layers", "length"}
    if option.name != "encoder_hidden"
)
AXES = ("dimension", "length", "heads", "head_dim", "hidden", "layers", "learning_rate", "seed")

Integers = int | Sequence[int]
Numbers = float | Sequence[float]


@dataclass(frozen=True)
class Grid:
    """Every combination of the axes, as trials. An axis is one value or a list of them.

    >>> len(Grid("max_sum", length=8, heads=[1, 2], seed=range(3)).trials())
    6

    - `task`: a name of the library, or a `TaskChoice` where it has options.
    - `dimension`: None leaves D to the task.
    - `hidden`: the paper's N, for encoder and readout alike.
    - `model`: further options of the `Architecture`, by name; with `readout_hidden` N is the encoder's alone.
    - `width`: sets the per-head dimension, n = ceil(E / h), in place of `head_dim`.
    """

    task: TaskChoice | str
    dimension: Integers | None = None
    length: Integers = (8, 16, 32)
    heads: Integers = (1, 2, 3)
    head_dim: Integers = 8
    width: int | None = None
    hidden: Integers = 32
    layers: Integers = 1
    learning_rate: Numbers = 3e-3
    seed: Integers = 0
    model: Mapping[str, Any] | tuple[tuple[str, Any], ...] = ()
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        """Everything in one form, so that grids can be compared and hashed however they were written."""
        if not isinstance(self.task, TaskChoice):
            object.__setattr__(self, "task", TaskChoice.of(self.task))
        for axis in AXES:
            if (given := getattr(self, axis)) is not None or axis != "dimension":
                object.__setattr__(self, axis, _values(axis, given))
        object.__setattr__(self, "model", tuple(dict(self.model).items()))
        for option in dict(self.model):
            check_choice("model", option, OPTIONS)
        if self.width is not None:
            heads = (check_integer("heads", count, at_least=1) for count in _values("heads", self.heads))
            check_integer("width", self.width, at_least=max(heads))

    def __iter__(self) -> Iterator[TaskTrial]:
        return iter(self.trials())

    def trials(self) -> tuple[TaskTrial, ...]:
        """The trials, each once, lengths outermost: members of one shape stand together."""
        assert isinstance(self.task, TaskChoice)
        axes = {axis: getattr(self, axis) for axis in AXES}
        tasks = [self.task] if self.dimension is None else [self.task.at(d) for d in axes["dimension"]]
        shapes = product(*(axes[axis] for axis in ("layers", "hidden", "head_dim", "heads")))
        return tuple(
            dict.fromkeys(
                Trial(task, length, architecture, learning_rate, seed, self.training)
                for length, task, shape in product(axes["length"], tasks, shapes)
                for architecture in (self._architecture(length, task, shape),)
                for learning_rate, seed in product(axes["learning_rate"], axes["seed"])
            )
        )

    def _architecture(self, length: int, task: TaskChoice, shape: tuple[int, ...]) -> Architecture:
        layers, hidden, head_dim, heads = shape
        check_integer("length", length, at_least=1)
        check_integer("heads", heads, at_least=1)
        built = task.build()
        for positions in built.positions:
            positions.indices(length)  # a set that does not fit the length is refused here
        options = {"readout_hidden": (hidden,), **dict(self.model)}
        if options.get("positions") in ("one_hot", "both"):
            options["length"] = length
        return Architecture(
            token_dim=built.token_dim,
            output_dim=built.output_dim,
            heads=heads,
            head_dim=head_dim if self.width is None else ceil(self.width / heads),
            encoder_hidden=(hidden,),
            layers=layers,
            **options,
        )


def _values(axis: str, given: Any) -> tuple[Any, ...]:
    """One value or several as a tuple of Python's own numbers; each is checked where it is used."""
    plain = given.tolist() if isinstance(given, np.ndarray) else given
    several = isinstance(plain, Iterable) and not isinstance(plain, str)
    values = (
        tuple(value.item() if isinstance(value, np.generic) else value for value in plain)
        if several
        else (plain,)
    )
    if not values:
        raise expected(axis, "a value or a list of one value or more", given)
    return values
