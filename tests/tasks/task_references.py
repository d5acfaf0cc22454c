"""Every named task once more, in plain NumPy loops, and the one table of cases that all comparisons use."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headcount.tasks.library import Bowl, Projection
from headcount.tasks.registry import build
from headcount.tasks.retrieval import RetrievalTask

FloatArray = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

DIRECTIONS = [[1.0, 0.5, 0.0], [-0.25, 2.0, 1.0]]
WELLS = [[0.2, 0.3], [0.9, 0.6], [0.5, 1.0]]


@dataclass(frozen=True)
class Case:
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    lengths: tuple[int, ...] = (1, 7)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value}' for key, value in self.options.items())})"

    def build(self) -> RetrievalTask:
        return build(self.name, **self.options)


CASES = (
    Case("max_sum"),
    Case("max_sum", {"dimension": 1, "token_dim": 1}),
    Case("max_sum", {"dimension": 3, "token_dim": 2, "seed": 7, "smallest_angle": 20.0}),
    Case("max_sum", {"dimension": 3, "token_dim": 4, "directions": "orthonormal"}),
    Case("max_sum", {"dimension": 2, "token_dim": 3, "directions": DIRECTIONS, "positions": "odd"}, (2, 5)),
    Case("max_sum", {"dimension": 2, "token_dim": 3, "positions": ["even", [4, 1]]}, (5, 8)),
    Case("bowls"),
    Case("bowls", {"dimension": 5, "token_dim": 2, "seed": 3, "positions": "second half"}, (2, 7)),
    Case("bowls", {"dimension": 3, "token_dim": 2, "wells": WELLS, "positions": [0, 3]}, (4, 9)),
    Case("bowls_product", {"dimension": 3, "token_dim": 2, "wells": WELLS}),
    Case("bowls_product", {"positions": ["all", "first half", "odd", [2]]}, (3, 6)),
    Case("bowls_ratio", {"dimension": 3, "token_dim": 2, "wells": WELLS}),
    Case("bowls_ratio", {"dimension": 1, "positions": "first half"}, (1, 6)),
    Case("bowls_soft_maximum", {"dimension": 3, "token_dim": 2, "wells": WELLS}),
    Case("bowls_several", {"dimension": 3, "token_dim": 2, "wells": WELLS}),
    Case("bowls_several", {"dimension": 2, "positions": [[1], "all"]}, (2, 6)),
    Case("extremes"),
    Case("extremes", {"positions": ["first half", "second half"]}, (2, 7)),
)


def reference_positions(choice: str | list[int], length: int) -> list[int]:
    if isinstance(choice, list):
        return choice
    members: dict[str, Callable[[int], bool]] = {
        "all": lambda position: True,
        "first half": lambda position: 2 * position < length,
        "second half": lambda position: 2 * position >= length,
        "even": lambda position: position % 2 == 0,
        "odd": lambda position: position % 2 == 1,
    }
    return [position for position in range(length) if members[choice](position)]


def reference_coordinates(case: Case, sequence: FloatArray) -> list[float]:
    task = case.build()
    choice = case.options.get("positions", "all")
    each = [choice] * task.dimension if isinstance(choice, str) or isinstance(choice[0], int) else choice
    coordinates = []
    for index, function in enumerate(task.coordinate_functions):
        values = []
        for position in reference_positions(each[index], len(sequence)):
            if isinstance(function, Bowl):
                values.append(_bowl(_given(case, "wells", index, function.well), sequence[position]))
            else:
                assert isinstance(function, Projection)
                direction = _given(case, "directions", index, function.direction)
                values.append(sum(a * x for a, x in zip(direction, sequence[position], strict=True)))
        takes_max = case.name == "max_sum" or (case.name == "extremes" and index == 0)
        coordinates.append(max(values) if takes_max else min(values))
    return coordinates


def reference_target(case: Case, sequence: FloatArray) -> list[float]:
    z = reference_coordinates(case, sequence)
    product = math.prod(1 + value for value in z)
    ratio = (1 + z[0]) / (1 + sum(z[1:]))
    soft_maximum = math.log(sum(math.exp(4 * value) for value in z) / len(z)) / 4
    return {
        "bowls_product": [product],
        "bowls_ratio": [ratio],
        "bowls_soft_maximum": [soft_maximum],
        "bowls_several": [sum(z), product, ratio],
    }.get(case.name, [sum(z)])


def _given(case: Case, option: str, index: int, drawn: tuple[float, ...]) -> tuple[float, ...]:
    choice = case.options.get(option, "random")
    if choice == "orthonormal":
        return tuple(float(index == axis) for axis in range(len(drawn)))
    return drawn if isinstance(choice, str) else tuple(choice[index])


def _bowl(well: tuple[float, ...], token: FloatArray) -> float:
    distance = sum((x - w) ** 2 for x, w in zip(token, well, strict=True))
    farthest = 0.0
    for corner in np.ndindex(*(2,) * len(well)):
        farthest = max(farthest, sum((u - w) ** 2 for u, w in zip(corner, well, strict=True)))
    return float(distance / farthest)
