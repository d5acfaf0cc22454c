"""The two real-data items: what they train, what they say of it, and what they refuse."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from reproduce.real.small import images, ranking_trial, rankings
from typer.testing import CliRunner

from headcount.commands.cli import app
from headcount.engine.device import this_machine
from headcount.errors import InvalidInput
from headcount.reproduce.item import REAL_ITEMS
from headcount.reproduce.real.item import right_answers, transitions
from headcount.reproduce.real.trial import RealData, problem_of
from headcount.reproduce.real.variants import (
    GRID,
    HEADS_FIXED,
    IN_FLOAT32,
    JOINED,
    LONGER,
    NARROW,
    PLACED_ONCE,
    SHORTER,
    SHORTER_CORNERS,
    WIDTH_FIXED,
)
from headcount.reproduce.recipe import FULL, QUICK
from headcount.results.store import Store
from headcount.trials.outcome import Outcome
from headcount.trials.pack import Pack
from headcount.trials.row import Row


def bound(name):
    """An item with data too small to learn anything from, but whole."""
    if name == "cifar10":
        data = images()
        arrays = (data.train_images,)
    else:
        data = rankings(candidates=64, queries=200)
        arrays = (data.queries,)
    return replace(REAL_ITEMS[name], data=RealData.read(name, data, *arrays))


@pytest.mark.parametrize("name", REAL_ITEMS)
def test_the_grid_is_the_papers_and_the_controls_part_heads_from_width(name):
    trials = bound(name).named(FULL.with_seeds(2))
    of_paper = {"msmarco": (32, {8, 16, 32, 64}), "cifar10": (16, {65, 145, 257})}
    size, lengths = of_paper[name]
    grid = trials[GRID]
    assert {trial.architecture.head_dim for trial in grid} == {size}
    assert {trial.length for trial in grid} == lengths
    assert {trial.seed for trial in grid} == {0, 1}
    assert len({trial.architecture.width for trial in trials[WIDTH_FIXED]}) == 1
    assert len({trial.architecture.heads for trial in trials[HEADS_FIXED]}) == 1
    assert {trial.architecture.width for trial in trials[NARROW]} == {size}
    assert len({trial.architecture.heads for trial in trials[WIDTH_FIXED]}) >= 4
    assert len({trial.architecture.width for trial in trials[HEADS_FIXED]}) >= 4
    assert set(trials[HEADS_FIXED]) & set(grid), "the controls meet the grid"


@pytest.mark.parametrize("name", REAL_ITEMS)
def test_a_frame_of_it_becomes_panels_and_verdicts(name):
    item = bound(name)
    recipe = QUICK.with_seeds(2)
    rows = []
    for trials in item.named(recipe).values():
        for trial in trials:
            error = min(0.9, 0.2 * trial.length**0.3 / trial.architecture.width**0.2) + 0.001 * trial.seed
            rows.append(row(trial, error))
    frame = item.rows(pd.DataFrame(rows).drop_duplicates("trial"), recipe)
    panels, verdicts = item.panels(frame), item.judge(frame)
    assert [len(panel.table) > 0 for panel in panels] == [True] * 6
    assert panels[0].table["paper"].notna().any() == (name == "msmarco")  # quick images have other lengths
    words = {verdict.claim: verdict.holds for verdict in verdicts}
    assert words["training accuracy rises with h, at every T"]
    assert not words[
        "heads bring more points of training accuracy than the width that comes with them, first or last"
    ]


def test_in_full_the_grid_has_more_beside_it():
    """A cell in float32; of MS MARCO also one with all tokens kept, and the grid for less time and more."""
    item, recipe = bound("msmarco"), FULL.with_seeds(2)
    named = item.named(recipe)
    rows = [row(trial, 0.2 / trial.architecture.heads) for trials in named.values() for trial in trials]
    frame = item.rows(pd.DataFrame(rows).drop_duplicates("trial"), recipe)
    claims = [verdict.claim for verdict in item.judge(frame)]
    assert {trial.architecture.precision for trial in named[IN_FLOAT32]} == {"float32"}
    steps = {variant: {trial.training.steps for trial in named[variant]} for variant in (SHORTER, GRID)}
    assert max(steps[SHORTER]) <= min(steps[GRID]) / 10
    for variant, count in ((IN_FLOAT32, 1), (JOINED, 1), (SHORTER, 6), (LONGER, 5)):
        assert sum(claim.startswith(variant) for claim in claims) == count
    few, many = {trial.architecture.heads for trial in named[SHORTER_CORNERS]}
    assert {(trial.architecture.heads, trial.architecture.width) for trial in named[SHORTER_CORNERS]} == {
        (few, 32 * many),
        (many, 32 * few),
    }
    assert any(SHORTER in panel.title and panel.table["paper"].notna().all() for panel in item.panels(frame))


def test_images_that_keep_their_place_are_another_grid_with_the_same_shortest_length():
    item, recipe = bound("cifar10"), FULL.with_seeds(1)
    named = item.named(recipe)
    assert all(problem_of(trial).placed_once for trial in named[PLACED_ONCE])
    assert {trial.length for trial in named[PLACED_ONCE]} < {trial.length for trial in named[GRID]}
    rows = [
        row(trial, 0.1 + problem_of(trial).placed_once)
        for name in (GRID, PLACED_ONCE)
        for trial in named[name]
    ]
    table = {panel.title: panel.table for panel in item.panels(item.rows(pd.DataFrame(rows), recipe))}
    medians = table[f"training samples that are wrong: {PLACED_ONCE}"].groupby("length")["median"].mean()
    np.testing.assert_allclose(medians, [0.1, 1.1, 1.1])


def test_trained_longer_is_the_grid_less_the_heads_that_had_not_learnt_all():
    item, recipe = bound("msmarco"), FULL.with_seeds(2)
    named = item.named(recipe)
    rows = [row(trial, 0.3 / trial.architecture.heads) for trial in named[GRID]]
    rows += [row(trial, 0.0) for trial in named[LONGER]]
    table = {panel.title: panel.table for panel in item.panels(item.rows(pd.DataFrame(rows), recipe))}
    medians = table[f"training samples that are wrong: {LONGER}"].groupby("heads")["median"].mean()
    np.testing.assert_allclose(medians, [0.0, *(0.3 / heads for heads in medians.index[1:])])


def test_where_others_had_not_learnt_all_they_are_not_taken_for_trained_longer():
    item, recipe = bound("msmarco"), FULL.with_seeds(2)
    named = item.named(recipe)
    rows = [row(trial, 0.3 if trial.architecture.heads == 2 else 0.0) for trial in named[GRID]]
    rows += [row(trial, 0.0) for trial in named[LONGER]]
    frame = item.rows(pd.DataFrame(rows), recipe)
    assert sorted(item.panels(frame)[2].table["heads"].unique()) == [1, 4, 6, 8, 12, 16]


@pytest.mark.parametrize("name", REAL_ITEMS)
@pytest.mark.parametrize(
    "lost", ["length == length.min()", "heads == 1 & length == length.max()", "heads > 0"]
)
def test_cells_without_a_finished_member_bear_no_claim(name, lost):
    item, recipe = bound(name), FULL.with_seeds(2)
    rows = [
        row(trial, 0.3 * np.exp(-trial.architecture.heads) * trial.length / 64)
        for trials in item.named(recipe).values()
        for trial in trials
    ]
    frame = item.rows(pd.DataFrame(rows).drop_duplicates("trial"), recipe)
    gone = (frame["variant"] == GRID) & frame.eval(lost)
    frame.loc[gone, "status"] = "diverged"
    frame.loc[gone, "train_error"] = np.nan
    words = {verdict.claim: verdict.holds for verdict in item.judge(frame)}
    assert item.panels(frame)
    if lost == "heads > 0":
        assert words == {"training accuracy depends on h or T": None}
        return
    assert not any(holds for claim, holds in words.items() if "reversal score" in claim)
    if "max" in lost:
        assert words["the reversal score turns positive at some h"] is None
        assert words["training accuracy rises with h, at every T"] is None


def test_a_head_count_that_another_grid_has_at_some_lengths_alone_is_left_out_and_named():
    item, recipe = bound("cifar10"), FULL.with_seeds(2)
    named = item.named(recipe)
    rows = [
        row(trial, 0.3 * np.exp(-trial.architecture.heads) * trial.length)
        for variant in (GRID, PLACED_ONCE)
        for trial in named[variant]
        if variant == GRID or (trial.length, trial.architecture.heads) != (257, 16)
    ]
    frame = item.rows(pd.DataFrame(rows), recipe)
    for verdict in item.judge(frame):
        left_out = "h = 16 left out, not trained at every T" in verdict.evidence
        assert left_out == verdict.claim.startswith(PLACED_ONCE)
    whole = item.panels(frame)[2].table
    cells = set(zip(whole["length"], whole["heads"], strict=True))
    assert (145, 16) in cells and (257, 16) not in cells


def row(trial, error):
    return {
        "trial": trial.id,
        "heads": trial.architecture.heads,
        "width": trial.architecture.width,
        "length": trial.length,
        "seed": trial.seed,
        "learning_rate": trial.learning_rate,
        "status": "done",
        "train_error": error,
        "validation_error": error,
        "test_error": np.nan,
        "spec": trial.to_json(),
        "scores": json.dumps({"tokens_that_matter": trial.length / 2, "validation_mrr": 1 - error}),
    }


@pytest.mark.parametrize("name", REAL_ITEMS)
def test_without_its_data_one_line_says_where_to_get_it(name, tmp_path):
    for options in ([], ["--data", str(tmp_path / "nowhere")], ["--data", str(tmp_path)]):
        done = CliRunner().invoke(app, ["reproduce", name, "--out", str(tmp_path / "out"), *options])
        error = str(done.exception)
        assert isinstance(done.exception, InvalidInput)
        assert "https://" in error and "\n" not in error
        assert not (tmp_path / "out").exists()


def test_the_estimator_is_asked_at_every_length(tmp_path):
    """Members with two heads and more agree; one head puts out something else."""
    random = np.random.default_rng(0)
    store = Store(tmp_path)
    store.prepare(models=True)
    trials = [ranking_trial(seed, heads=heads) for heads in (1, 2, 3, 4, 5, 6) for seed in (0, 1)]
    agreed = random.normal(size=(90, 4))
    agreed[np.arange(90), right_answers(trials[0])] += 3
    for trial in trials:
        alone = trial.architecture.heads == 1
        outputs = 4 * random.normal(size=(90, 4)) if alone else agreed + 1e-3 * random.normal(size=(90, 4))
        error = 0.6 if alone else 0.1
        made = Outcome(problem_of(trial).start(0), error, error, np.nan, 1, False, outputs, "train")
        store.keep(trial, made)
        row = Row.of(trial, made, this_machine(), seconds=1.0)
        store.write(Pack((trial,), trial.architecture), [row])
    (verdict,) = transitions(trials, store)
    assert verdict.claim == "at T = 4, the estimator sees a transition"
    assert verdict.holds and "from h = 2 on (95% interval: 2 alone)" in verdict.evidence
    (few,) = transitions(trials[:8], store)
    assert few.holds is None and "needs members of 5 head counts" in few.evidence
    named = {GRID: trials, SHORTER: trials, LONGER: trials[:8]}
    item = replace(bound("msmarco"), make=lambda recipe, data: named)
    other = replace(verdict, claim=f"{SHORTER}: {verdict.claim}")
    assert item.look_closer(store, FULL) == [verdict, other], "where too little is trained, nothing is said"


def test_they_are_listed_and_are_no_part_of_all():
    listed = json.loads(CliRunner().invoke(app, ["reproduce", "--list", "--json"]).stdout)
    assert {"msmarco", "cifar10", "table2"} <= set(listed)
