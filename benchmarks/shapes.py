"""Explicit weights for every small shape: what was allowed, what was promised, what was measured.

    python benchmarks/shapes.py             goes on where it was stopped
    python benchmarks/shapes.py --quick     one length, the largest D alone

All of L ≤ 3, h ≤ 3, kv | h, read in the last layer, in every layer and at the last token: D at the capacity
(at most 9) for T = 4, 16, 64, a sum and a product of (1 + z_i); every smaller D for T = 16 and a sum. One
more coordinate must be refused, and is built where positions and a feed-forward network are allowed. Writes
benchmarks/results/shapes.json.
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

import jax
import numpy as np
from recording import RESULTS, about, parser_of

from headcount.errors import InvalidInput
from headcount.results.files import write_whole
from headcount.tasks.library import max_sum
from headcount.tasks.library import product as product_of
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.capacity import capacity
from headcount.theory.constructions.specialise import specialise
from headcount.theory.shape import Mask, Reading

LENGTHS = (4, 16, 64)
EPSILON = 9e-3
MAX_DIMENSION = 9
STARTS, STEPS = 25, 60


@dataclass(frozen=True)
class Case:
    """A shape, a task and a length; `sighted` lets it see positions and have a feed-forward network."""

    layers: int
    heads: int
    kv_heads: int
    reading: Reading
    dimension: int
    length: int
    outer: str
    sighted: bool = False

    @property
    def key(self) -> str:
        """A name that no other case has."""
        return "-".join(map(str, vars(self).values())).replace(" ", "_")

    def task(self) -> RetrievalTask:
        """The maxima along D axes of [0,1]^D, added up or multiplied."""
        return _task(self.dimension, self.outer)


@cache  # one object each, whose assumptions are checked once
def _task(dimension: int, outer: str) -> RetrievalTask:
    summed = max_sum(dimension=dimension, token_dim=dimension, directions=np.eye(dimension))
    task = replace(summed, distribution="uniform")
    return task if outer == "sum" else replace(task, name="max_product", outer=product_of)


def cases(*, quick: bool) -> Iterator[Case]:
    """D from 1 to the capacity and one beyond it, which is asked for twice: blind and sighted."""
    readings: tuple[Reading, ...] = ("last", "every", "last token")
    for layers, heads, reading in product((1, 2, 3), (1, 2, 3), readings):
        if layers == 1 and reading == "last":
            continue  # one layer is the last and every one
        for kv_heads in (part for part in range(1, heads + 1) if heads % part == 0):
            mask: Mask = "causal" if reading == "last token" else "full"
            reach = capacity(
                layers=layers, heads=heads, kv_heads=kv_heads, head_dim=64, reading=reading, mask=mask
            ).constructed
            top = min(reach, MAX_DIMENSION)
            for outer, length in product(("sum", "product"), (16,) if quick else LENGTHS):
                shape = (layers, heads, kv_heads, reading)
                smaller = range(1, top) if length == 16 and outer == "sum" and not quick else ()
                for dimension in (*smaller, top):
                    yield Case(*shape, dimension, length, outer)
                if reach == top:
                    yield Case(*shape, top + 1, length, outer)
                    if layers > 1 and reading != "last token":
                        yield Case(*shape, top + 1, length, outer, sighted=True)


def measure(case: Case) -> dict[str, Any]:
    """One row: the bound and the largest error found; or why it was refused."""
    began = time.perf_counter()
    row: dict[str, Any] = {"key": case.key, **vars(case)}
    try:
        made = specialise(
            case.task(),
            length=case.length,
            epsilon=EPSILON,
            layers=case.layers,
            heads=case.heads,
            kv_heads=case.kv_heads,
            reading=case.reading,
            positions=case.sighted,
            feedforward=case.sighted,
        )
    except InvalidInput as error:
        return {**row, "refused": str(error)}
    return {
        **row,
        "head_dim": made.model.architecture.head_dim,
        "width": made.model.architecture.width,
        "bound" if made.error.proven else "estimate": made.error.total,
        "measured_error": made.measured_error(starts=STARTS, steps=STEPS).error,
        "seconds": round(time.perf_counter() - began, 2),
    }


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    path = RESULTS / ("shapes-quick.json" if chosen.quick else "shapes.json")
    rows = {row["key"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    wanted = list(cases(quick=chosen.quick))
    for place, case in enumerate(wanted, 1):
        if case.key not in rows:
            rows[case.key] = measure(case)
            jax.clear_caches()  # hundreds of programs would exhaust the memory maps of a process
            _write(path, list(rows.values()))
        print(f"{place} of {len(wanted)}: {rows[case.key]}", file=sys.stderr)
    built = [row for row in rows.values() if "refused" not in row]
    wrong = [row["key"] for row in built if not row["measured_error"] <= min(_promised(row), 1e-2)]
    print(
        f"{len(built)} built, {len(rows) - len(built)} refused; beyond their bound or 1e-2: {wrong or 'none'}"
    )


def _promised(row: dict[str, Any]) -> float:
    return float(row["bound"] if "bound" in row else row["estimate"])


def _write(path: Any, rows: list[dict[str, Any]]) -> None:
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    head = ",\n".join(f" {json.dumps(name)}: {json.dumps(value)}" for name, value in about().items())
    write_whole(path, lambda file: file.write(f'{{\n{head},\n "rows": [\n{lines}\n ]\n}}\n'.encode()))


if __name__ == "__main__":
    main()
