"""A small cell of each table comes out as it did when it was committed.

Rounding differs from machine to machine and grows as training goes on: over a few hundred steps the error
agrees to parts in a thousand or better. The tolerance is 2%.
"""

import json

import pytest
from reproduce.cells import COMMITTED, NAMES, error


@pytest.mark.parametrize(
    "name", [NAMES[0], *(pytest.param(name, marks=pytest.mark.long) for name in NAMES[1:])]
)
def test_a_small_cell_comes_out_as_committed(name: str) -> None:
    committed = json.loads(COMMITTED.read_text())[name]
    assert error(name) == pytest.approx(committed, rel=0.02)
