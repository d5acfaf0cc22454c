"""What docs/open.md says, computed again from the frames by NumPy and pandas alone."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from reproduce.recomputing import numbers, quote, row_of, rows_of, same


@pytest.mark.parametrize(("bounded", "activation"), [(True, "relu"), (True, "tanh"), (False, "relu")])
def test_falls_under_the_bounds_assumption_are_those_of_the_rows(bounded, activation):
    rows = rows_of("open_questions")
    rows = rows[rows["steps"] == 15_000]
    models = pd.json_normalize([json.loads(one)["architecture"] for one in rows["spec"]]).set_index(
        rows.index
    )
    layers = models["readout_hidden"].map(len)
    chosen = rows[
        (models["bounded"] == bounded)
        & (models["readout_activation"] == activation)
        & (models["readout_hidden"].map(max) == 32)
        & (layers == 1)
    ]
    errors = {}
    for place, cell in chosen.groupby(["heads", "length"]):
        best = cell.loc[cell["validation_error"].idxmin(), "learning_rate"]
        errors[place] = cell.loc[cell["learning_rate"] == best, "test_error"]
    title = f"{'' if bounded else 'not '}bounded, {activation} F"
    claim = f"{title}: the error falls at least 10-fold from h = 2 to h = 3, at every T, by any statistic"
    _, (evidence,) = row_of(quote("answers_bounded", "open"), claim)
    said = re.findall(r"T = (\d+): ([\d,]+), ([\d,]+) ", evidence)
    assert [int(length) for length, *_ in said] == [8, 16, 32, 64, 128]
    for length, minimum, median in said:
        below, at = errors[2, int(length)], errors[3, int(length)]
        assert numbers(minimum)[0] == round(below.min() / at.min())
        assert numbers(median)[0] == round(below.median() / at.median())


def test_layer_norm_leaves_the_fall_where_it_is():
    rows = rows_of("open_questions")
    full = rows[(rows["steps"] == 10_000) & (rows["task"] == "max_sum") & (rows["dimension"] == 3)]
    models = pd.json_normalize([json.loads(one)["architecture"] for one in full["spec"]]).set_index(
        full.index
    )
    for layers, heads in ((1, 3), (2, 2)):
        for norm, name in ((False, "no norm"), (True, "layer norm")):
            cells = full[(full["layers"] == layers) & (models["layer_norm"] == norm)]
            claim = f"from one h to the next, the error falls most to h = {heads}, at every T"
            mark, (evidence,) = row_of(quote("answers_layer_norm", "open"), f"L = {layers}, {name}: {claim}")
            assert mark == "✓"
            for length, said in re.findall(r"T = (\d+): ([\d,]+)-fold", evidence):
                lowest = []
                for _, cell in cells[cells["length"] == int(length)].groupby("heads"):
                    best = cell.loc[cell["validation_error"].idxmin(), "learning_rate"]
                    lowest.append(cell.loc[cell["learning_rate"] == best, "test_error"].min())
                folds = np.array(lowest[:-1]) / np.array(lowest[1:])
                assert folds.argmax() + 2 == heads
                same(numbers(said)[0], folds.max(), rel=6e-2)
