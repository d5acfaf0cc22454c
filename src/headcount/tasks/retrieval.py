"""The family of targets: retrieve D extrema from a sequence, each over a set of positions; combine them."""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from headcount.errors import InvalidInput
from headcount.validation import check_choice, check_integer, expected, is_integer

Rule = Callable[[int], Iterable[int]]

RULES: dict[str, Rule] = {
    "all": lambda length: range(length),
    "first half": lambda length: range((length + 1) // 2),
    "second half": lambda length: range((length + 1) // 2, length),
    "even": lambda length: range(0, length, 2),
    "odd": lambda length: range(1, length, 2),
}
LIBRARIES = {"jax", "jaxlib", "numpy", "headcount"}  # what they define is right in both precisions
POSITIONS = f"one of {', '.join(RULES)}, or a list of indices"


@dataclass(frozen=True)
class Positions:
    """S = {t_1, ..., t_m}, a non-empty set of positions in a sequence of any length.

    Lengths are known before anything is compiled, so a set becomes plain indices: an extremum over
    them is exact, and a token outside affects neither a value nor a gradient.

    `rule` is a name ("all", "first half", "second half", "even", "odd"), the indices themselves, or a
    function from the length to the indices.

    >>> Positions("odd").indices(6)
    array([1, 3, 5])
    >>> Positions([2, 0]).mask(4)
    array([ True, False,  True, False])
    >>> Positions(lambda length: range(length - 2, length)).indices(9)
    array([7, 8])
    """

    rule: str | Iterable[int] | Rule = "all"

    def __post_init__(self) -> None:
        if isinstance(self.rule, str):
            if self.rule not in RULES:
                raise expected("positions", POSITIONS, self.rule)
        elif not callable(self.rule):
            # Sorted and frozen, equal sets become equal, hashable objects.
            object.__setattr__(self, "rule", _index_set(self.rule))

    def indices(self, length: int) -> Int[np.ndarray, " positions"]:
        """The positions in a sequence of this length, ascending."""
        length = check_integer("length", length, at_least=1)
        if isinstance(self.rule, str):
            rule: object = RULES[self.rule](length)
        else:
            rule = self.rule(length) if callable(self.rule) else self.rule
        chosen = _index_set(rule, where=f" at length {length}")
        if chosen[-1] >= length:
            raise expected("positions", f"indices from 0 to {length - 1} at length {length}", chosen[-1])
        return np.asarray(chosen)

    def mask(self, length: int) -> Bool[np.ndarray, " length"]:
        """True at the positions of the set."""
        inside = np.zeros(length, dtype=bool)
        inside[self.indices(length)] = True
        return inside


def position_sets(choice: object) -> tuple[Positions, ...]:
    """One position set per entry, or a single one to be shared by all coordinates.

    A list of integers is one set of indices; any other list holds one set per coordinate.

    >>> len(position_sets([0, 1, 2])), len(position_sets(["all", [0, 1], "even"]))
    (1, 3)
    """
    if isinstance(choice, list | tuple) and not all(is_integer(entry) for entry in choice):
        return tuple(_position_set(entry) for entry in choice)
    return (_position_set(choice),)


def _position_set(choice: object) -> Positions:
    return choice if isinstance(choice, Positions) else Positions(choice)  # type: ignore[arg-type]


def _index_set(indices: object, where: str = "") -> tuple[int, ...]:
    if not isinstance(indices, Iterable):
        raise expected("positions", POSITIONS, indices)
    chosen = sorted(check_integer("position", index, at_least=0) for index in indices)
    if not chosen:
        raise InvalidInput(f"positions: expected at least one{where}, got none")
    for earlier, later in itertools.pairwise(chosen):
        if earlier == later:
            raise InvalidInput(f"positions: expected each index once, got {later} twice")
    return tuple(chosen)


Extremum = Literal["min", "max"]
Distribution = Literal["uniform", "normal"]
CoordinateFunction = Callable[[Float[Array, " token_dim"]], Float[Array, ""]]
OuterFunction = Callable[[Float[Array, " dimension"]], Float[Array, ""] | Float[Array, " output_dim"]]

_Entry = TypeVar("_Entry")


class Samples(NamedTuple):
    """(x, y): sequences and their targets, row by row."""

    x: Float[Array, "count length token_dim"]
    y: Float[Array, "count output_dim"]


@dataclass(frozen=True, eq=False)
class RetrievalTask:
    r"""y = F_0(zbar_1, ..., zbar_D) with zbar_i = min_{t in S_i} f_i(x(t)), or max.

    Each zbar_i lives at one token of the sequence, and the D tokens are in general different ones: a
    model that looks at fewer than D places at once must find the others some other way.

    `coordinate_functions` are the f_i, JAX functions of one token in either precision (arrays they refer to
    are cast, `jnp.asarray(W, token.dtype)`); `positions` the S_i and `extrema`
    the choice between min and max, one each or a single one for all; `outer` is F_0, to a number or a
    vector; tokens are "uniform" in [0, 1]^token_dim or "normal" N(0, I).

    >>> task = RetrievalTask(
    ...     name="largest and smallest",
    ...     token_dim=1,
    ...     coordinate_functions=(lambda token: token[0], lambda token: token[0]),
    ...     extrema=("max", "min"),
    ...     outer=jnp.sum,
    ... )
    >>> task.target(jnp.array([[0.5], [0.25], [1.0]]))
    Array([1.25], dtype=float32)
    >>> task.sample(jax.random.key(0), count=3, length=8).y.shape
    (3, 1)
    """

    name: str
    token_dim: int
    coordinate_functions: tuple[CoordinateFunction, ...]
    outer: OuterFunction
    positions: tuple[Positions, ...] = (Positions("all"),)
    extrema: tuple[Extremum, ...] = ("min",)
    distribution: Distribution = "uniform"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise expected("task name", "a non-empty string", self.name)
        check_integer("token_dim", self.token_dim, at_least=1)
        object.__setattr__(self, "coordinate_functions", _entries(self.coordinate_functions))
        check_integer("dimension", self.dimension, at_least=1)
        object.__setattr__(self, "positions", self._each("positions", position_sets(self.positions)))
        object.__setattr__(self, "extrema", self._each("extrema", _entries(self.extrema)))
        for extremum in self.extrema:
            check_choice("extrema", extremum, get_args(Extremum))
        check_choice("distribution", self.distribution, get_args(Distribution))
        self._check_shapes()

    def _check_shapes(self) -> None:
        for index, function in enumerate(self.coordinate_functions):
            _check_precision(f"coordinate function {index}", function, (self.token_dim,))
            shape = _output_shape(f"coordinate function {index}", function, self.token_dim)
            if shape != ():
                raise InvalidInput(f"coordinate function {index}: expected a scalar, got the shape {shape}")
        _check_precision("outer", self.outer, (self.dimension,))
        if len(self._outer_shape) > 1 or 0 in self._outer_shape:
            raise InvalidInput(f"outer: expected a scalar or a vector, got the shape {self._outer_shape}")

    @property
    def dimension(self) -> int:
        """D, the number of extrema to retrieve."""
        return len(self.coordinate_functions)

    @property
    def output_dim(self) -> int:
        """The number of outputs; a scalar target has one."""
        return self._outer_shape[0] if self._outer_shape else 1

    def coordinates(self, x: Float[Array, "*batch length token_dim"]) -> Float[Array, "*batch dimension"]:
        """zbar_i = min_{t in S_i} f_i(x(t)), or max: the D numbers that determine the target."""
        if x.ndim < 2 or x.shape[-1] != self.token_dim:
            raise InvalidInput(f"x: expected the shape (..., length, {self.token_dim}), got {x.shape}")
        return jnp.stack([self._coordinate(x, index) for index in range(self.dimension)], axis=-1)

    def target(self, x: Float[Array, "*batch length token_dim"]) -> Float[Array, "*batch output_dim"]:
        """F_0(zbar(x)), always with the axis of outputs."""
        signature = "(dimension)->(output_dim)" if self._outer_shape else "(dimension)->()"
        y: Array = jnp.vectorize(self.outer, signature=signature)(self.coordinates(x))
        return y if self._outer_shape else y[..., None]

    def inputs(self, key: Key[Array, ""], count: int, length: int) -> Float[Array, "count length token_dim"]:
        """Sequences of independent tokens from the task's distribution."""
        check_integer("count", count, at_least=1)
        check_integer("length", length, at_least=1)
        draw = jax.random.uniform if self.distribution == "uniform" else jax.random.normal
        return draw(key, (count, length, self.token_dim))

    def sample(self, key: Key[Array, ""], count: int, length: int) -> Samples:
        """Sequences with their targets."""
        x = self.inputs(key, count, length)
        return Samples(x, self.target(x))

    def _coordinate(self, x: Float[Array, "*batch length token_dim"], index: int) -> Float[Array, "*batch"]:
        # Tokens are chosen before f_i is applied, so its value at a token outside S_i never matters.
        indices = self.positions[index].indices(x.shape[-2])
        chosen = x if len(indices) == x.shape[-2] else x[..., indices, :]
        values = jnp.vectorize(self.coordinate_functions[index], signature="(token_dim)->()")(chosen)
        return jnp.min(values, axis=-1) if self.extrema[index] == "min" else jnp.max(values, axis=-1)

    @cached_property
    def _outer_shape(self) -> tuple[int, ...]:
        return _output_shape("outer", self.outer, self.dimension)

    def _each(self, name: str, entries: tuple[_Entry, ...]) -> tuple[_Entry, ...]:
        if len(entries) not in (1, self.dimension):
            raise InvalidInput(
                f"{name}: expected 1 or {self.dimension} entries, one per coordinate, got {len(entries)}"
            )
        return entries * self.dimension if len(entries) == 1 else entries


def _entries(given: object) -> tuple[Any, ...]:
    return tuple(given) if isinstance(given, list | tuple) else (given,)


def _output_shape(name: str, function: Callable[..., Array], size: int) -> tuple[int, ...]:
    try:
        found = jax.eval_shape(function, jnp.zeros(size))
        shape, kind = tuple(found.shape), found.dtype
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(
            f"{name}: expected a JAX function of a vector of {size} numbers, but {reason}"
        ) from error
    if not jnp.issubdtype(kind, jnp.floating):
        raise InvalidInput(f"{name}: expected real numbers such as float32, got {kind}")
    return shape


def _check_precision(name: str, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    """Refuse a function of a user's own that computes in one precision only."""
    if home_of(function) not in LIBRARIES:
        from headcount.tasks.precision import check_precision

        check_precision(name, function, shape)


def home_of(value: object) -> str:
    """The package that made a value."""
    module = getattr(value, "__module__", None) or type(value).__module__
    return str(module).partition(".")[0]
