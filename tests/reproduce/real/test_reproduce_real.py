"""The two real-data items: what they train, what they say of it, and what they refuse."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from reproduce.invented import invented_frame
from reproduce.real.small import images, ranking_trial, rankings

from headcount.reproduce.item import REAL_ITEMS
from headcount.reproduce.real import variants
from headcount.reproduce.real.estimating import right_answers, transitions
from headcount.reproduce.real.trial import RealData, problem_of
from headcount.reproduce.real.variants import GRID, LONGER, PLACED_ONCE, SHORTER, SHORTER_CORNERS
from headcount.reproduce.recipe import FULL, QUICK
from headcount.results.store import Store
from headcount.trials.machine import this_machine
from headcount.trials.pack import Pack
from headcount.trials.row import Outcome, Row

FULLY = FULL.with_seeds(2)
RISING = "training accuracy rises with h, at every T"


def bound(name):
    """An item with data too small to learn anything from, but whole."""
    data = images() if name == "cifar10" else rankings(candidates=64, queries=200)
    arrays = data.train_images if name == "cifar10" else data.queries
    return replace(REAL_ITEMS[name], data=RealData.read(name, data, arrays))


def frame_of(item, error, *, recipe=FULLY, only=None):
    """The rows of all trials, or of some variants alone, with an error that is a function of the trial."""
    named = item.named(recipe)
    trials = {trial for variant in only or named for trial in named[variant]}
    frame = invented_frame(trials, error).assign(test_error=np.nan)
    scores = {"tokens_that_matter": frame["length"] / 2, "validation_mrr": 1 - frame["validation_error"]}
    frame["scores"] = [json.dumps(row) for row in pd.DataFrame(scores).to_dict("records")]
    return item.rows(frame, recipe)


def table(item, frame, variant):
    """The cells of a variant, as its first panel shows them."""
    titled = {panel.title: panel.table for panel in item.panels(frame)}
    return titled[f"training samples that are wrong: {variant}"]


@pytest.mark.parametrize(
    ("name", "size", "lengths"), [("msmarco", 32, {8, 16, 32, 64}), ("cifar10", 16, {65, 145, 257})]
)
def test_the_grid_is_the_papers_and_the_controls_part_heads_from_width(name, size, lengths):
    named = bound(name).named(FULLY)
    shapes = {variant: {trial.architecture for trial in trials} for variant, trials in named.items()}
    heads, widths = (
        {key: {getattr(s, of) for s in shapes[key]} for key in shapes} for of in ("heads", "width")
    )
    assert {shape.head_dim for shape in shapes[GRID]} == {size}
    assert {(trial.length, trial.seed) for trial in named[GRID]} == {
        (T, seed) for T in lengths for seed in (0, 1)
    }
    assert len(widths[variants.WIDTH_FIXED]) == 1 and len(heads[variants.WIDTH_FIXED]) >= 4
    assert len(heads[variants.HEADS_FIXED]) == 1 and len(widths[variants.HEADS_FIXED]) >= 4
    assert widths[variants.NARROW] == {size}
    assert set(named[variants.HEADS_FIXED]) & set(named[GRID]), "the controls meet the grid"


@pytest.mark.parametrize("name", REAL_ITEMS)
def test_a_frame_of_it_becomes_panels_and_verdicts(name):
    def error(trial):
        return min(0.9, 0.2 * trial.length**0.3 / trial.architecture.width**0.2) + 0.001 * trial.seed

    item = bound(name)
    frame = frame_of(item, error, recipe=QUICK.with_seeds(2))
    panels = item.panels(frame)
    assert [len(panel.table) > 0 for panel in panels] == [True] * 6
    assert panels[0].table["paper"].notna().any() == (name == "msmarco")  # quick images have other lengths
    words = {verdict.claim: verdict.holds for verdict in item.judge(frame)}
    assert words[RISING]
    assert not words["added heads raise training accuracy more than the added width does"]


def test_in_full_the_grid_has_more_beside_it():
    """A cell in float32; of MS MARCO also one with all tokens kept, and the grid for less time and more."""
    item = bound("msmarco")
    named = item.named(FULLY)
    frame = frame_of(item, lambda trial: 0.2 / trial.architecture.heads)
    claims = [verdict.claim for verdict in item.judge(frame)]
    assert {trial.architecture.precision for trial in named[variants.IN_FLOAT32]} == {"float32"}
    shorter, whole = ([trial.training.steps for trial in named[variant]] for variant in (SHORTER, GRID))
    assert max(shorter) <= min(whole) / 10
    for variant, count in ((variants.IN_FLOAT32, 1), (variants.JOINED, 1), (SHORTER, 6), (LONGER, 5)):
        assert sum(claim.startswith(variant) for claim in claims) == count
    corners = {(trial.architecture.heads, trial.architecture.width) for trial in named[SHORTER_CORNERS]}
    few, many = {heads for heads, _ in corners}
    assert corners == {(few, 32 * many), (many, 32 * few)}
    assert any(SHORTER in panel.title and panel.table["paper"].notna().all() for panel in item.panels(frame))


def test_images_that_keep_their_place_are_another_grid_with_the_same_shortest_length():
    item = bound("cifar10")
    named = item.named(FULLY)
    assert all(problem_of(trial).placed_once for trial in named[PLACED_ONCE])
    assert {trial.length for trial in named[PLACED_ONCE]} < {trial.length for trial in named[GRID]}
    frame = frame_of(item, lambda trial: 0.1 + problem_of(trial).placed_once, only=(GRID, PLACED_ONCE))
    medians = table(item, frame, PLACED_ONCE).groupby("length")["median"].mean()
    np.testing.assert_allclose(medians, [0.1, 1.1, 1.1])


def test_trained_longer_is_the_grid_with_other_members_where_not_all_was_learnt():
    """Head counts that had not learnt all, and were not trained longer, are not among them."""
    item = bound("msmarco")
    longer = set(item.named(FULLY)[LONGER])

    def medians(error):
        frame = frame_of(
            item,
            lambda trial: 0.0 if trial in longer else error(trial.architecture.heads),
            only=(GRID, LONGER),
        )
        return table(item, frame, LONGER).groupby("heads")["median"].mean()

    falling = medians(lambda heads: 0.3 / heads)
    np.testing.assert_allclose(falling, [0.0, *(0.3 / heads for heads in falling.index[1:])])
    assert sorted(medians(lambda heads: 0.3 * (heads == 2)).index) == [1, 4, 6, 8, 12, 16]


@pytest.mark.parametrize("name", REAL_ITEMS)
@pytest.mark.parametrize(
    "lost", ["length == length.min()", "heads == 1 & length == length.max()", "heads > 0"]
)
def test_cells_without_a_finished_member_bear_no_claim(name, lost):
    item = bound(name)
    frame = frame_of(item, lambda trial: 0.3 * np.exp(-trial.architecture.heads) * trial.length / 64)
    gone = (frame["variant"] == GRID) & frame.eval(lost)
    frame.loc[gone, ["status", "train_error"]] = "diverged", np.nan
    words = {verdict.claim: verdict.holds for verdict in item.judge(frame)}
    assert item.panels(frame)
    if lost == "heads > 0":
        assert words == {"training accuracy depends on h or T": None}
        return
    assert not any(holds for claim, holds in words.items() if "reversal score" in claim)
    if "max" in lost:
        assert words["the reversal score turns positive at some h"] is words[RISING] is None


def test_a_head_count_that_another_grid_has_at_some_lengths_alone_is_left_out_and_named():
    item = bound("cifar10")

    def error(trial):
        return 0.3 * np.exp(-trial.architecture.heads) * trial.length

    frame = frame_of(item, error, only=(GRID, PLACED_ONCE))
    frame = frame.query(f"variant == '{GRID}' or length != 257 or heads != 16")
    for verdict in item.judge(frame):
        left_out = "h = 16 left out, not trained at every T" in verdict.evidence
        assert left_out == verdict.claim.startswith(PLACED_ONCE)
    whole = item.panels(frame)[2].table
    cells = set(zip(whole["length"], whole["heads"], strict=True))
    assert (145, 16) in cells and (257, 16) not in cells


@pytest.mark.parametrize("name", REAL_ITEMS)
def test_without_its_data_one_line_says_where_to_get_it(name, called, capsys, tmp_path):
    for options in ([], ["--data", tmp_path / "nowhere"], ["--data", tmp_path]):
        assert called("reproduce", name, "--out", tmp_path / "out", *options) == 2
        error = capsys.readouterr().err
        assert "https://" in error and error.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_the_estimator_is_asked_at_every_length(tmp_path):
    """Members with two heads and more agree; one head puts out something else."""
    random, store = np.random.default_rng(0), Store(tmp_path)
    store.prepare(models=True)
    trials = [ranking_trial(seed, heads=heads) for heads in (1, 2, 3, 4, 5, 6) for seed in (0, 1)]
    agreed = random.normal(size=(90, 4))
    agreed[np.arange(90), right_answers(trials[0])] += 3
    for trial in trials:
        alone = trial.architecture.heads == 1
        error, noise = (0.6, 4.0) if alone else (0.1, 1e-3)
        outputs = agreed * (not alone) + noise * random.normal(size=(90, 4))
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
