"""What is to be trained: a trial is one member, a grid is a product of axes. Frozen, hashable, validated."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from itertools import product
from math import ceil
from typing import Any, Literal, Self, get_args

import jax
import numpy as np

from headcount.errors import InvalidInput
from headcount.models import Architecture
from headcount.tasks import DataSet, RetrievalTask, build, comes_along
from headcount.validation import finite_number, shown, whole_number

Loss = Literal["squared", "cross_entropy"]

DATA = "data"
METRICS = {"squared": "nmse", "cross_entropy": "log loss"}
LARGEST_SEED = 2**31 - 1
LARGEST_DATA = 4 << 30
# Options that came after the first results: where they have their usual value, a trial keeps its old hash.
LATER_OPTIONS = (
    ("training", "polish_steps", 0),
    ("training", "loss", "squared"),
    ("architecture", "class_reads", "last"),
    ("architecture", "positions_start", "drawn"),
)
# Of a model in a grid: what neither the task nor an axis decides.
OPTIONS = tuple(
    option.name
    for option in fields(Architecture)
    if option.name not in {"token_dim", "output_dim", "heads", "head_dim", "layers", "length"}
    if option.name not in {"encoder_hidden", "readout_hidden"}
)


_loaded: dict[str, DataSet] = {}


@dataclass(frozen=True)
class TaskChoice:
    """A task of the library (or a registered one) by name, with its options as plain values."""

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, name: str, **options: Any) -> Self:
        """The choice in a canonical form: options sorted, lists as tuples."""
        return cls(name, tuple(sorted((key, _frozen(value)) for key, value in options.items())))

    def at(self, dimension: int) -> "TaskChoice":
        """The same task with D set."""
        return TaskChoice.of(self.name, **{**dict(self.options), "dimension": dimension})

    @classmethod
    def of_data(cls, data: DataSet) -> "TaskChoice":
        """A person's own data, known by what is in it."""
        _loaded[data.fingerprint] = data
        return cls.of(DATA, file=data.name, fingerprint=data.fingerprint)

    def build(self) -> RetrievalTask:
        """The task itself."""
        return _built(self)

    @property
    def data(self) -> DataSet | None:
        """The data set, where the choice is one."""
        if self.name != DATA:
            return None
        options = dict(self.options)
        if options.get("fingerprint") not in _loaded:
            raise InvalidInput(f"data = {shown(options.get('file'))}: load it before it is trained on")
        return _loaded[options["fingerprint"]]

    @property
    def dimension(self) -> int:
        """D of the task; 0 where nobody knows it."""
        return 0 if self.name == DATA else self.build().dimension


@dataclass(frozen=True)
class Training:
    """How a member is trained, and on how much data.

    AdamW with linear warm-up (500 steps, or a tenth of the run if that is less) and a cosine to zero,
    gradients clipped per member. Every `evaluate_every` steps the member is judged on validation data and
    its best state is kept; its final error comes from test data that no choice has seen. With `polish_steps`
    that best state is then carried on by so many steps of Levenberg–Marquardt (engine/polish.py). The `loss`
    is `squared` for numbers and `cross_entropy` for labels, of which y is the one-hot code.
    """

    steps: int = 10_000
    batch_size: int = 256
    warmup: int | None = None
    weight_decay: float = 0.0
    clip: float = 1.0
    train_samples: int = 8_000
    validation_samples: int = 2_000
    test_samples: int = 10_000
    evaluate_every: int = 100
    data_seed: int = 0
    polish_steps: int = 0
    loss: Loss = "squared"

    def __post_init__(self) -> None:
        whole_number("steps", self.steps, at_least=1)
        if self.warmup is None:
            object.__setattr__(self, "warmup", min(500, self.steps // 10))
        for name in ("batch_size", "train_samples", "evaluate_every"):
            whole_number(name, getattr(self, name), at_least=1)
        for name in ("validation_samples", "test_samples"):
            whole_number(name, getattr(self, name), at_least=2)
        whole_number("warmup", self.warmup, at_least=0)
        whole_number("polish_steps", self.polish_steps, at_least=0)
        whole_number("data_seed", self.data_seed, at_least=0, at_most=LARGEST_SEED)
        if self.loss not in get_args(Loss):
            raise InvalidInput(f"loss = {shown(self.loss)}: allowed are {', '.join(get_args(Loss))}")
        if self.polish_steps and self.loss != "squared":
            raise InvalidInput(f"polish_steps = {self.polish_steps}: allowed is 0 for the loss {self.loss}")
        finite_number("weight_decay", self.weight_decay, at_least=0)
        finite_number("clip", self.clip, above=0)
        if self.steps % self.evaluate_every:
            raise InvalidInput(
                f"steps = {self.steps}: must be a multiple of evaluate_every = {self.evaluate_every}"
            )
        if self.warmup is not None and self.warmup >= self.steps:
            raise InvalidInput(f"warmup = {self.warmup}: must be below steps = {self.steps}")


@dataclass(frozen=True)
class Trial:
    """One member: what it learns, what it is, how and from where it starts."""

    task: TaskChoice
    length: int
    architecture: Architecture
    learning_rate: float = 3e-3
    seed: int = 0
    training: Training = field(default_factory=Training)

    def __post_init__(self) -> None:
        whole_number("length", self.length, at_least=1)
        whole_number("seed", self.seed, at_least=0, at_most=LARGEST_SEED)
        finite_number("learning_rate", self.learning_rate, above=0)
        recipe = self.training
        if recipe.loss != "squared" and self.task.name != DATA:
            raise InvalidInput(f"loss = {recipe.loss!r}: allowed is squared, since the task has no labels")
        samples = recipe.train_samples + recipe.validation_samples + recipe.test_samples
        size = 4 * samples * self.length * self.architecture.token_dim
        if size > LARGEST_DATA:
            raise InvalidInput(
                f"train_samples = {recipe.train_samples}: with validation and test samples, at length "
                f"{self.length}, that is {size / 2**30:,.0f} GiB of data; allowed are {LARGEST_DATA >> 30}"
            )

    @property
    def metric(self) -> str:
        """What its errors are."""
        return METRICS[self.training.loss]

    @cached_property
    def id(self) -> str:
        """A hash of everything that decides the result: the key of a row, on every machine."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """All fields, in an order that never changes; for a task of your own, also what it computes."""
        parts = {part: _written(getattr(self, part)) for part in ("task", "architecture", "training")}
        written: dict[str, Any] = {**_written(self), **parts}
        if self.task.name != DATA and not comes_along(self.task.name):
            written["task"]["fingerprint"] = _fingerprint(self.task, self.length)
        for part, option, usual in LATER_OPTIONS:
            if written[part][option] == usual:  # as if it had never been thought of
                del written[part][option]
        return json.dumps(written, sort_keys=True, default=lambda number: number.item())  # of NumPy


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
            whole_number("width", self.width, at_least=max(self.heads))

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
        whole_number("length", length, at_least=1)
        whole_number("heads", heads, at_least=1)
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


@lru_cache(maxsize=1024)
def _built(task: TaskChoice) -> RetrievalTask:
    return build(task.name, **dict(task.options))


def forget_built() -> None:
    """Build tasks anew when they are asked for: a name may mean another one now."""
    _built.cache_clear()
    _fingerprint.cache_clear()


@lru_cache(maxsize=1024)
def _fingerprint(task: TaskChoice, length: int) -> str:
    """A hash of some targets, to three digits: it changes when the code of the task does."""
    targets = task.build().sample(jax.random.PRNGKey(0), 16, length).y
    text = " ".join(f"{value:.2e}" for value in targets.ravel().tolist())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _written(part: Any) -> dict[str, Any]:
    """The fields of a dataclass of plain values: `asdict`, but quick enough for every member of a sweep."""
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _frozen(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(_frozen(item) for item in value)
    return value
