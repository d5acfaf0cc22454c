from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from headcount.errors import InvalidInput
from headcount.tasks.library import bowls, max_sum
from headcount.tasks.registry import TASKS, build, register_task
from headcount.tasks.retrieval import RetrievalTask

NAN = float("nan")


def make(**changes: Any) -> RetrievalTask:
    parts: dict[str, Any] = {
        "name": "made",
        "token_dim": 2,
        "coordinate_functions": (jnp.sum, jnp.max),
        "outer": jnp.sum,
    }
    return RetrievalTask(**(parts | changes))


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: make(name=" "), "task name ' ' is not possible"),
    (lambda: make(name=3), "task name 3 is not possible"),
    (lambda: make(token_dim=0), "token_dim = 0: allowed is a"),
    (lambda: make(token_dim=True), "token_dim = True: allowed is a"),
    (lambda: make(coordinate_functions=()), "dimension = 0: allowed is a"),
    (lambda: make(coordinate_functions=("sum",)), "coordinate function 0 cannot be applied"),
    (
        lambda: make(coordinate_functions=(lambda token: token,)),
        r"coordinate function 0 gives the shape \(2,\)",
    ),
    (lambda: make(coordinate_functions=(lambda token: token @ jnp.ones(3),)), "a vector of 2 numbers"),
    (lambda: make(outer=lambda z: jnp.outer(z, z)), r"outer gives the shape \(2, 2\)"),
    (lambda: make(outer=None), "outer cannot be applied to a vector of 2 numbers"),
    (lambda: make(positions=("all", "even", "odd")), "3 positions are not possible: 1 or 2 are needed"),
    (lambda: make(positions="evens"), "'evens' is not known"),
    (lambda: make(extrema=("min", "max", "min")), "3 extrema are not possible"),
    (lambda: make(extrema=("min", "mean")), "extremum 'mean' is not known: use one of min, max"),
    (lambda: make(distribution="cauchy"), "distribution 'cauchy' is not known: use one of uniform, normal"),
    (lambda: make().target(jnp.ones((5, 3))), r"x of shape \(5, 3\) is not possible"),
    (lambda: make().target(jnp.ones(2)), r"x of shape \(2,\) is not possible"),
    (lambda: make().target(jnp.ones((0, 2))), "length = 0: allowed is a"),
    (lambda: make(positions=[4]).target(jnp.ones((4, 2))), "position 4 is not possible: length 4"),
    (lambda: make().inputs(jax.random.key(0), 0, 4), "count = 0: allowed is a"),
    (lambda: make().inputs(jax.random.key(0), 4, 2.5), "length = 2.5: allowed is a"),  # type: ignore[arg-type]
    (lambda: build("max_sun"), r"task: expected one of bowls.*, got 'max_sun'; did you mean 'max_sum'\?"),
    (lambda: build("?"), "task: expected one of bowls.*, got '.'"),
    (lambda: build(["bowls"]), r"task: expected one of bowls.*, got \['bowls'\]"),  # type: ignore[arg-type]
    (
        lambda: build("bowls", dimensions=3),
        r"expected an option of dim.*, got 'dimensions'; did you mean 'dimension'\?",
    ),
    (
        lambda: build("extremes", dimension=3),
        "'extremes': expected an option of positions.*'dimension'",
    ),
    (lambda: build("bowls", dimension=0), "dimension = 0: allowed is a"),
    (lambda: build("bowls", dimension=2.0), "dimension = 2.0: allowed is a"),
    (lambda: build("max_sum", dimension=True), "dimension = True: allowed is a"),
    (lambda: build("max_sum", dimension=NAN), "dimension = nan: allowed is a"),
    (lambda: build("max_sum", token_dim="4"), "token_dim = '4': allowed is a"),
    (lambda: build("max_sum", seed=-1), "seed = -1: allowed is a"),
    (
        lambda: build("max_sum", smallest_angle=NAN),
        "smallest_angle = nan: allowed is a",
    ),
    (lambda: build("max_sum", smallest_angle=True), "smallest_angle = True: allowed is a"),
    (lambda: build("max_sum", directions="diagonal"), "directions 'diagonal' are not known: use random"),
    (
        lambda: build("max_sum", directions=[[1, 0]]),
        r"directions of shape \(1, 2\) is not possible.*\(4, 4\)",
    ),
    (lambda: build("max_sum", directions=[[1, 0], [1]]), "4 vectors of 4 numbers are needed"),
    (lambda: max_sum(dimension=1, token_dim=1, directions=[[NAN]]), "every entry must be finite"),
    (lambda: max_sum(dimension=1, token_dim=2, directions=np.zeros((1, 2))), "a direction cannot be zero"),
    (
        lambda: build("max_sum", dimension=5, directions="orthonormal"),
        "a dimension of 5 is not possible with orthonormal directions in 4 dimensions",
    ),
    (lambda: bowls(dimension=1, token_dim=1, wells=[[1.5]]), "every entry must be from 0 to 1"),
    (lambda: build("bowls", wells="corners"), "wells 'corners' are not known"),
    (lambda: build("bowls", smallest_distance=-0.1), "smallest_distance = -0.1: allowed is a"),
    (lambda: build("bowls", positions=[0, 0]), "position 0 is given twice"),
    (lambda: register_task("bowls"), "task name: expected one that is not taken, got 'bowls'"),
    (lambda: register_task(""), "task name: expected a non-empty string, got ''"),
    (
        lambda: register_task("open")(lambda **options: make()),
        r"options with names, got '\*\*options'",
    ),
]


@pytest.mark.parametrize(("attempt", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_bad_input_is_refused_in_one_clear_line(attempt: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidInput, match=words) as refusal:
        attempt()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "option", "options"),
    [
        ("max_sum", "smallest_angle", {"dimension": 8, "token_dim": 2, "smallest_angle": 60}),
        ("max_sum", "smallest_angle", {"dimension": 3, "token_dim": 1}),
        ("bowls", "smallest_distance", {"dimension": 9, "token_dim": 1}),
    ],
)
def test_what_a_refusal_says_is_possible_is_possible(name: str, option: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="the largest that was found is") as refusal:
        build(name, **options)
    possible = float(str(refusal.value).split()[-1])
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
