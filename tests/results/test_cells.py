import numpy as np
import pandas as pd
import pytest
from believable import believable_frame, diverge, in_cell, with_error

from headcount.errors import InvalidInput
from headcount.results.cells import cell_table, only_section, sections, selected_members


def test_selection_looks_at_validation_error_of_members_that_did_not_diverge():
    frame = believable_frame(heads=(4,), lengths=(8,), learning_rates=(1e-3,))
    frame = frame.assign(validation_error=[0.1, 0.2, 1e-30], test_error=[0.5, 0.01, 1e-30])
    frame.loc[2, "status"] = "diverged"
    assert selected_members(only_section(frame))["test_error"].tolist() == [0.5]


def test_selection_does_not_depend_on_the_order_of_rows():
    frame = believable_frame()
    frame = with_error(frame, frame["heads"] == 4, 0.0)
    trials = selected_members(only_section(frame))["trial"]
    shuffled = selected_members(only_section(frame.sample(frac=1, random_state=1)))["trial"]
    pd.testing.assert_series_equal(trials, shuffled)


def test_the_table_agrees_with_a_plain_loop():
    frame = believable_frame()
    frame = diverge(frame, (frame["seed"] == 1) & (frame["heads"] > 3))
    for cell in cell_table(only_section(frame)).itertuples():
        members = frame[in_cell(frame, heads=cell.heads, length=cell.length)]
        done = members[members["status"] == "done"]
        assert cell.best == done.loc[done["validation_error"].idxmin(), "test_error"]
        assert cell.median == np.median(done["test_error"])
        assert (cell.failed, cell.members) == (len(members) - len(done), len(members))


def test_a_cell_that_diverged_has_no_error_and_one_never_trained_no_members():
    frame = believable_frame()
    frame = diverge(frame, in_cell(frame, heads=3, length=32))
    frame = frame[~in_cell(frame, heads=2, length=8)]
    table = cell_table(only_section(frame)).set_index(["heads", "length"])
    assert np.isnan(table.loc[(3, 32), "best"])
    assert table.loc[(3, 32), "failed"] == 6
    assert table.loc[(2, 8), "members"] == 0


def test_sections_keep_the_order_of_the_frame_and_split_by_dimension():
    frames = [believable_frame(task=task, dimension=d) for task, d in [("b", 2), ("a", 3), ("b", 4)]]
    found = [(section.task, section.dimension) for section in sections(pd.concat(frames))]
    assert found == [("b", 2), ("a", 3), ("b", 4)]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (believable_frame().iloc[:0], "no rows"),
        (believable_frame().drop(columns="heads"), "lacks heads"),
        (believable_frame().assign(test_error=-0.5), "test_error is -0.5"),
        (pd.concat([believable_frame(task="a"), believable_frame(task="b")]), r"a with D = 4; b with D = 4"),
    ],
)
def test_a_frame_that_cannot_be_shown_is_refused_by_name(frame, message):
    with pytest.raises(InvalidInput, match=message):
        only_section(frame)
