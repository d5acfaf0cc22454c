"""Every item, on results that are known beforehand: its panels, its verdicts, its page."""

import json

import numpy as np
import pytest
from reproduce.invented import as_the_theory_says, invented_frame

from headcount.report.panel_chart import panels_chart
from headcount.report.rendering import save_chart
from headcount.reproduce.claims import reversal_score
from headcount.reproduce.item import ITEMS
from headcount.reproduce.page import columns, write_reproduction, written
from headcount.reproduce.recipe import FULL, LENGTHS, QUICK
from headcount.reproduce.rivals import PARAMETERS
from headcount.reproduce.sensitivity import at_an_angle
from headcount.reproduce.table import TABLE_2, TABLE_3, TABLE_4, TABLE_5
from headcount.tasks.registry import build
from headcount.trials.trial import Trial

TABLES = {"table2": TABLE_2, "table3": TABLE_3, "table4": TABLE_4, "table5": TABLE_5}


@pytest.mark.parametrize("recipe", [FULL, QUICK], ids=["full", "quick"])
@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_panels_verdicts_and_page(item, recipe, tmp_path):
    frame = item.rows(invented_frame(item.trials(recipe)), recipe)
    assert set(frame["trial"]) == {trial.id for trial in item.trials(recipe)}
    panels, verdicts = item.panels(frame), item.judge(frame)
    assert panels and verdicts
    for panel in panels:
        assert {panel.across, panel.lines, "min", "median", "failed"} <= set(panel.table)
        assert all(len(row) == len(columns(panel)) for row in written(panel))
    page = tmp_path / "page.html"
    write_reproduction(item, panels, verdicts, frame, page, command="headcount", notes=["a note"])
    assert all(verdict.word in page.read_text() for verdict in verdicts)
    if recipe is QUICK:
        save_chart(panels_chart(panels), tmp_path / "page.svg")
    json.dumps([vars(verdict) for verdict in verdicts])


def falling_slowly(trial: Trial) -> float:
    """No transition anywhere."""
    noise = np.random.default_rng(int(trial.id, 16)).lognormal(0, 0.1)
    return float(1e-2 / trial.architecture.heads * noise)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(("error", "transition"), [(as_the_theory_says, True), (falling_slowly, False)])
def test_a_transition_is_found_where_there_is_one_and_only_there(name, error, transition):
    item = ITEMS[name]
    verdicts = item.judge(item.rows(invented_frame(item.trials(FULL), error), FULL))
    assert next(verdict for verdict in verdicts if "falls at least" in verdict.claim).holds is transition
    growing = [bool(verdict.holds) for verdict in verdicts if "grows with T" in verdict.claim]
    assert growing and set(growing) == {transition}


@pytest.mark.parametrize(("name", "published"), TABLES.items(), ids=TABLES)
def test_grids_are_those_of_the_paper(name, published):
    trials = ITEMS[name].trials(FULL)
    assert {(trial.architecture.heads, trial.length) for trial in trials} == set(published.errors)
    assert {trial.length for trial in trials} == set(LENGTHS)
    assert len({trial.seed for trial in trials}) >= 8 and len({trial.learning_rate for trial in trials}) >= 2
    assert {trial.training.train_samples for trial in trials} == {8000}
    assert all(trial.training.data_seed == trial.seed for trial in trials), "a seed draws its own data"
    assert len(set(trials)) == sum(len(grid.trials()) for grid in ITEMS[name].grids(FULL).values())
    assert {max(trial.architecture.encoder_hidden) for trial in trials} == {32}
    if name != "table2":
        assert all(trial.architecture.head_dim == -(-32 // trial.architecture.heads) for trial in trials)


def test_the_reversal_score_misjudges_the_paper_s_own_table_4():
    at_one, at_two = (np.array([TABLE_4.errors[heads, length] for length in LENGTHS]) for heads in (1, 2))
    assert round(reversal_score(at_two), 2) == 2.64  # positive at h = 2, though D = 3
    assert reversal_score(at_one) == 0


def test_members_with_equal_parameters_have_them_nearly_equal():
    grids = ITEMS["rivals"].grids(FULL).items()
    equal = [trial for name, grid in grids if name.startswith("parameters") for trial in grid.trials()]
    counts = {trial.architecture.counted_parameters() for trial in equal}
    assert max(counts) - min(counts) < 0.02 * PARAMETERS


@pytest.mark.parametrize("degrees", [3, 45, 90])
def test_directions_at_an_angle(degrees):
    directions = np.array(at_an_angle(degrees))
    cosines = directions @ directions.T
    assert np.allclose(np.diag(cosines), 1)
    assert np.isclose(np.degrees(np.arccos(cosines[2, 3])), degrees)
    build("max_sum", dimension=4, token_dim=4, directions=at_an_angle(degrees))
