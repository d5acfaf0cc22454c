"""A grid: every combination of some axes, as trials."""

from dataclasses import dataclass, field, fields
from itertools import product
from math import ceil
from typing import Any

from headcount.errors import InvalidInput
from headcount.models.architecture import Architecture
from headcount.trials.task_choice import TaskChoice
from headcount.trials.training import Training
from headcount.trials.trial import Trial
from headcount.validation import check_integer

# Of a model in a grid: what neither the task nor an axis decides.
OPTIONS = tuple(
    option.name
    for option in fields(Architecture)
    if option.name not in {"token_dim", "output_dim", "heads", "head_dim", "layers", "length"}
    if option.name not in {"encoder_hidden", "readout_hidden"}
)


@dataclass(frozen=True)
class Grid:
    """Every combination of the axes, as trials.

    >>> grid = Grid(TaskChoice.of("max_sum", token_dim=4), length=(8,), heads=(1, 2), seed=(0, 1, 2))
    >>> len(grid.trials())
    6

    `dimension` None leaves D to the task. `hidden` is the paper's N, for encoder and readout alike.
    With `width` the per-head dimension follows from it, n = ceil(E / h), and `head_dim` is not used.
    """

    task: TaskChoice
    dimension: tuple[int, ...] | None = None
    length: tuple[int, ...] = (8, 16, 32)
    heads: tuple[int, ...] = (1, 2, 3)
    head_dim: tuple[int, ...] = (8,)
    width: int | None = None
    hidden: tuple[int, ...] = (32,)
    layers: tuple[int, ...] = (1,)
    learning_rate: tuple[float, ...] = (3e-3,)
    seed: tuple[int, ...] = (0,)
    model: tuple[tuple[str, Any], ...] = ()
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        for axis in ("dimension", "length", "heads", "head_dim", "hidden", "layers", "learning_rate", "seed"):
            values = getattr(self, axis)
            if not (isinstance(values, tuple) and values) and not (axis == "dimension" and values is None):
                raise InvalidInput(f"{axis} = {values!r}: allowed is a tuple of one value or more")
        if self.width is not None:
            check_integer("width", self.width, at_least=max(self.heads))

    def trials(self) -> tuple[Trial, ...]:
        """The trials, each once, lengths outermost: members of one shape stand together."""
        tasks = [self.task] if self.dimension is None else [self.task.at(d) for d in self.dimension]
        shapes = product(self.layers, self.hidden, self.head_dim, self.heads)
        return tuple(
            dict.fromkeys(
                Trial(task, length, architecture, learning_rate, seed, self.training)
                for length, task, shape in product(self.length, tasks, shapes)
                for architecture in (self._architecture(length, task, shape),)
                for learning_rate, seed in product(self.learning_rate, self.seed)
            )
        )

    def _architecture(self, length: int, task: TaskChoice, shape: tuple[int, int, int, int]) -> Architecture:
        layers, hidden, head_dim, heads = shape
        check_integer("length", length, at_least=1)
        check_integer("heads", heads, at_least=1)
        built = task.build()
        for positions in built.positions:
            positions.indices(length)  # a set that does not fit the length is refused here
        options = dict(self.model)
        for option in options:
            if option not in OPTIONS:
                raise InvalidInput(f"model.{option} = {options[option]!r}: allowed are {', '.join(OPTIONS)}")
        if options.get("positions") in ("one_hot", "both"):
            options["length"] = length
        return Architecture(
            token_dim=built.token_dim,
            output_dim=built.output_dim,
            heads=heads,
            head_dim=head_dim if self.width is None else ceil(self.width / heads),
            encoder_hidden=(hidden,),
            readout_hidden=(hidden,),
            layers=layers,
            **options,
        )
