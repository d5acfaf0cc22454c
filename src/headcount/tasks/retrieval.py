"""The family of targets: retrieve D extrema from a sequence, then combine them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from headcount.errors import InvalidInput
from headcount.tasks.positions import Positions, position_sets
from headcount.validation import check_choice, check_integer, expected

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

    `coordinate_functions` are the f_i, JAX functions of one token; `positions` the S_i and `extrema`
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
            shape = _output_shape(f"coordinate function {index}", function, self.token_dim)
            if shape != ():
                raise InvalidInput(f"coordinate function {index}: expected a scalar, got the shape {shape}")
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
