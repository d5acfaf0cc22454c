"""What a user may get wrong about a task, and the hash of the code of a task of their own."""

import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.tasks.library import bowls, max_sum
from headcount.tasks.registry import TASKS, build, register_task
from headcount.tasks.retrieval import Positions, RetrievalTask
from headcount.tasks.source import code_version

NAN = float("nan")


WEIGHTS = np.array([[1 / 3, 0.7], [0.1, 1 / 7]])
USED = np.array([1 / 3, 0.7])
(lambda z: USED * z)(jnp.zeros(2))  # in single precision, before any task is built


@dataclass(frozen=True, eq=False)
class Weighted:
    weights: np.ndarray

    def __call__(self, z: jax.Array) -> jax.Array:
        return self.weights @ z


def make(**changes: Any) -> RetrievalTask:
    parts: dict[str, Any] = {
        "name": "made",
        "token_dim": 2,
        "coordinate_functions": (jnp.sum, jnp.max),
        "outer": jnp.sum,
    }
    return RetrievalTask(**(parts | changes))


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: make(name=" "), "task name: expected a non-empty string, got ' '"),
    (lambda: make(token_dim=True), "token_dim: expected an integer >= 1, got True"),
    (lambda: make(coordinate_functions=()), "dimension: expected an integer >= 1, got 0"),
    (lambda: make(coordinate_functions=("sum",)), "coordinate function 0: expected a JAX function"),
    (
        lambda: make(coordinate_functions=(lambda token: token,)),
        r"coordinate function 0: expected a scalar, got the shape \(2,\)",
    ),
    (lambda: make(coordinate_functions=(lambda token: token @ jnp.ones(3),)), "a vector of 2 numbers, but"),
    (lambda: make(coordinate_functions=(jnp.argmax,)), "expected real numbers such as float32, got int32"),
    (lambda: make(outer=lambda z: jnp.outer(z, z)), r"outer: expected a scalar or a vector, got .*\(2, 2\)"),
    *(
        (lambda part=part: make(**part), f"{name}: expected constants in the precision .* {shape}")
        for name, shape, part in [
            ("outer", r"float64 of shape \(2, 2\)", {"outer": lambda z: WEIGHTS @ z}),
            ("outer", r"\(2, 2\)", {"outer": functools.partial(jnp.matmul, WEIGHTS)}),
            ("outer", r"\(2, 2\)", {"outer": Weighted(WEIGHTS)}),
            ("outer", r"\(2, 2\)", {"outer": jax.jit(lambda z: jnp.asarray(WEIGHTS) @ z)}),
            ("outer", r"\(2,\)", {"outer": lambda z: USED * z}),
            ("coordinate function 0", r"\(2, 2\)", {"coordinate_functions": (lambda x: WEIGHTS[0] @ x,)}),
        ]
    ),
    (lambda: make(positions=("all", "even", "odd")), "positions: expected 1 or 2 entries, .* got 3"),
    (lambda: make(extrema=("min", "mean")), "extrema: expected one of min, max, got 'mean'"),
    (lambda: make(distribution="cauchy"), "distribution: expected one of uniform, normal, got 'cauchy'"),
    (lambda: make().target(jnp.ones((5, 3))), r"x: expected the shape \(..., length, 2\), got \(5, 3\)"),
    (lambda: make().inputs(jax.random.key(0), 0, 4), "count: expected an integer >= 1, got 0"),
    (lambda: Positions("evens"), "positions: expected one of all, first half, .* got 'evens'"),
    (lambda: Positions(5), "positions: expected one of all, first half, .* got 5"),  # type: ignore[arg-type]
    (lambda: Positions([]), "positions: expected at least one, got none"),
    (lambda: Positions([0, 2, 0]), "positions: expected each index once, got 0 twice"),
    (lambda: Positions([True]), "position: expected an integer >= 0, got True"),
    (lambda: Positions([0, 7]).indices(7), "positions: expected indices from 0 to 6 at length 7, got 7"),
    (lambda: Positions("odd").indices(1), "positions: expected at least one at length 1, got none"),
    (lambda: Positions(lambda length: [0, 0]).indices(3), "got 0 twice"),
    (lambda: Positions("all").indices(2.0), "length: expected an integer >= 1, got 2.0"),  # type: ignore[arg-type]
    (lambda: build("max_sun"), "'max_sun'.*did you mean 'max_sum'"),
    (lambda: build(["bowls"]), r"task.*\['bowls'\]"),  # type: ignore[arg-type]
    (lambda: build("bowls", dimensions=3), "'dimensions'.*did you mean 'dimension'"),
    (lambda: build("bowls", dimension=2.0), "dimension: expected an integer >= 1, got 2.0"),
    (lambda: build("max_sum", seed=-1), "seed: expected an integer >= 0, got -1"),
    (lambda: build("max_sum", smallest_angle=NAN), "smallest_angle: expected a finite number .* got nan"),
    (lambda: build("max_sum", directions="diagonal"), "directions: expected random, .* got 'diagonal'"),
    (lambda: build("max_sum", directions=[[1, 0], [1]]), "directions: expected 4 vectors of 4 numbers"),
    (lambda: max_sum(dimension=1, token_dim=2, directions=np.zeros((1, 2))), "vectors other than zero"),
    (
        lambda: build("max_sum", dimension=5, directions="orthonormal"),
        "dimension: expected at most token_dim = 4 for orthonormal directions, got 5",
    ),
    (lambda: bowls(dimension=1, token_dim=1, wells=[[1.5]]), "wells: expected entries from 0 to 1, got"),
    (lambda: build("bowls", wells="corners"), "wells: expected random or a list of points, got 'corners'"),
    (lambda: register_task("bowls"), "'bowls'"),
    (lambda: register_task(""), "task name"),
    (lambda: register_task("own", version=""), "version: expected a non-empty string"),
    (lambda: register_task("own", version=2), "version: expected a non-empty string"),  # type: ignore[arg-type]
    (lambda: register_task("open")(lambda **options: make()), r"'\*\*options'"),
]


@pytest.mark.parametrize(("attempt", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_bad_input_is_refused_in_one_clear_line(attempt: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "option", "options"),
    [
        ("max_sum", "smallest_angle", {"dimension": 3, "token_dim": 1}),
        ("bowls", "smallest_distance", {"dimension": 9, "token_dim": 1}),
    ],
)
def test_the_value_that_an_error_suggests_works(name: str, option: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=rf"{option}: expected at most") as refusal:
        build(name, **options)
    possible = float(str(refusal.value).partition("at most ")[2].split()[0])
    assert build(name, **(options | {option: possible})).dimension == options["dimension"]


def test_a_registered_task_is_built_by_name_and_its_name_is_kept() -> None:
    @register_task("mine")
    def mine(*, token_dim: int) -> RetrievalTask:
        return make(name="mine", token_dim=token_dim)

    try:
        assert build("mine", token_dim=5).token_dim == 5
        with pytest.raises(InvalidInput, match="task 'mine': expected the option 'token_dim'"):
            build("mine")
        with pytest.raises(InvalidInput, match="not taken, got 'mine'"):
            register_task("mine")
    finally:
        del TASKS["mine"]


class Scaled:
    """A callable with state and a class of its own."""

    factor = 2.0

    def __init__(self, shift):
        self.shift = shift

    def __call__(self, value):
        return self.factor * value + self.shift

    @property
    def doubled(self):
        return 2 * self.shift


def recursive(value):
    return value if value < 1 else recursive(value - 1)


def builder_of(value):
    return lambda: value


CONSTANTS = [1, True, "text", None, (1, 2), [1, 2], {"one": 1}, frozenset({1, 2})]
ARRAYS = [np.arange(3), np.float32(1), jax.numpy.ones(2)]
FUNCTIONS = [jax.jit(recursive), recursive, functools.partial(recursive, 3), np.max, np.add, len]
VALUES = [*CONSTANTS, *ARRAYS, *FUNCTIONS, np, Scaled, Scaled(1.0), Scaled(2.0), Scaled(2.0).__call__]


def test_whatever_a_closure_holds_is_distinguished_and_found_again():
    found = [code_version("own", builder_of(value)) for value in VALUES]
    assert found == [code_version("own", builder_of(value)) for value in VALUES]
    assert len(set(found)) == len(found)


def test_a_list_that_holds_itself_has_an_end():
    loop = [1]
    loop.append(loop)
    assert code_version("own", builder_of(loop))


def test_what_cannot_be_read_asks_for_a_version():
    with pytest.raises(InvalidInput, match=r"task 'own': expected a version.*version='1'.*lock"):
        code_version("own", builder_of(threading.Lock()))


def test_arrays_in_the_precision_of_the_input_are_exact_in_both():
    task = make(outer=lambda z: jnp.sum(jnp.asarray(WEIGHTS, z.dtype) @ z * jnp.array([1.0, 0.1])))
    x = np.random.default_rng(0).uniform(size=(3, 4, 2))
    assert task.target(jnp.asarray(x, jnp.float32)).dtype == jnp.float32  # traced in single precision first
    with jax.enable_x64(True):
        y = np.asarray(task.target(jnp.asarray(x)))
    z = np.stack([x.sum(axis=-1).min(axis=-1), x.max(axis=-1).min(axis=-1)], axis=-1)
    np.testing.assert_allclose(y[:, 0], (z @ WEIGHTS.T * [1.0, 0.1]).sum(axis=-1), rtol=1e-14)
