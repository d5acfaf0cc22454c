"""The two real-data items: what they train, what they say of it, and what they refuse."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from real.small import images, ranking_trial, rankings
from typer.testing import CliRunner

from headcount.cli import app
from headcount.engine import Outcome, Pack, Store, this_machine
from headcount.engine.frame import Row
from headcount.errors import InvalidInput
from headcount.real.loaded import remember
from headcount.real.trial import RealData
from headcount.reproduce import FULL, QUICK, REAL_ITEMS
from headcount.reproduce.law import Law, delta_interval, fit_law, law_intervals
from headcount.reproduce.real_claims import (
    faded,
    falls_with_length,
    reversal,
    rises_with_heads,
    where_length_fades,
)
from headcount.reproduce.real_controls import beside_the_grid, follows, reciprocal_rank, tokens_that_matter
from headcount.reproduce.real_item import (
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
    shape_of,
)
from headcount.reproduce.real_law import paper_s_law
from headcount.reproduce.real_transition import right_answers, transitions

HEADS, LENGTHS = (1, 2, 4, 8), (8, 16, 64)


def bound(name):
    """An item with data too small to learn anything from, but whole."""
    if name == "cifar10":
        data = images()
        arrays = (data.train_images,)
    else:
        data = rankings(candidates=64, queries=200)
        arrays = (data.queries,)
    return replace(REAL_ITEMS[name], data=RealData.of(name, fingerprint=remember(data, *arrays)))


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


def test_what_matters_and_where_the_positive_ranks_is_told():
    frame = pd.DataFrame(
        {
            "heads": [1, 2, 1, 2],
            "length": [8, 8, 16, 16],
            "scores": [
                json.dumps({"tokens_that_matter": matter, "validation_mrr": rank})
                for matter, rank in ((3, 0.5), (4, 0.7), (3, 0.4), (2, 0.3))
            ],
        }
    )
    few = tokens_that_matter(frame)
    assert few.holds is False and few.evidence.startswith("T = 8: 3 with h = 1, 4 with h = 2, T = 16: 3")
    (ranked,) = reciprocal_rank(frame)
    assert ranked.holds is False
    assert ranked.evidence.startswith("T = 8: 0.50 with h = 1, at best 0.70 with h = 2")
    assert not list(reciprocal_rank(frame.assign(scores="{}")))


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
    assert all(trial.problem.placed_once for trial in named[PLACED_ONCE])
    assert {trial.length for trial in named[PLACED_ONCE]} < {trial.length for trial in named[GRID]}
    rows = [
        row(trial, 0.1 + trial.problem.placed_once) for name in (GRID, PLACED_ONCE) for trial in named[name]
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


def grid(error, *, variant=GRID, seeds=3):
    """Cells of one grid with these errors and a little noise over seeds."""
    random = np.random.default_rng(0)
    return pd.DataFrame(
        [
            {
                "heads": heads,
                "length": length,
                "width": 16 * heads,
                "variant": variant,
                "train_error": error(heads, length) * random.uniform(0.99, 1.01),
            }
            for heads in HEADS
            for length in LENGTHS
            for _ in range(seeds)
        ]
    )


LAW = Law(-1.4, 0.43, 0.49 / 3, 0.25, 0)
LIKE_THE_PAPER = grid(LAW.error)
CELLS = {(heads, length): float(LAW.error(heads, length)) for heads in HEADS for length in LENGTHS}


def test_errors_like_the_papers_are_recognised():
    frame = LIKE_THE_PAPER
    assert rises_with_heads(frame).holds
    assert falls_with_length(frame).holds
    law = paper_s_law(frame, CELLS)
    assert law.holds and law.evidence.startswith("a = -1.4 ")
    fades = where_length_fades(frame, CELLS)
    assert fades.holds and fades.evidence.endswith("by the paper's numbers from h = 8 on")


def test_errors_of_another_shape_are_not():
    rising = grid(lambda heads, length: 0.01 * heads)
    assert rises_with_heads(rising).holds is False
    assert falls_with_length(rising).holds is None
    assert falls_with_length(grid(lambda heads, length: 0.1 / length)).holds is False
    apart = grid(lambda heads, length: 0.1 + 0.004 * length)
    assert where_length_fades(apart, {}).holds is False
    assert "not below" in where_length_fades(apart, {}).evidence
    assert paper_s_law(grid(lambda heads, length: 0.5 if heads % 3 == 1 else 0.01), CELLS).holds is False


def test_the_law_needs_the_papers_exponent_and_more_than_heads():
    twice = grid(lambda heads, length: Law(-2.8, 0.43, 0.9, 0.25, 0).error(heads, length))
    assert paper_s_law(twice, CELLS).holds is False
    by_heads = {cell: 0.3 * np.exp(-0.3 * cell[0]) for cell in CELLS}
    assert paper_s_law(grid(lambda *cell: by_heads[cell]), CELLS).holds is False
    assert paper_s_law(LIKE_THE_PAPER, {}).holds is None, "nothing to hold it against"


def test_where_all_is_learnt_nothing_rises_and_nothing_fades():
    learnt = grid(lambda heads, length: 1e-5 * length / heads)
    (alone,) = shape_of(learnt, CELLS)
    assert alone.holds is False and alone.evidence == "at most 0.06% is wrong in any of 12 cells"
    assert len(shape_of(LIKE_THE_PAPER, CELLS)) == 5
    assert rises_with_heads(learnt).holds is None
    assert where_length_fades(learnt, CELLS).holds is None
    assert where_length_fades(learnt, CELLS).evidence.endswith("there is none beyond noise at any h")


@pytest.mark.parametrize(
    ("error", "holds", "told"),
    [
        (lambda heads, length: 0.3 / heads, True, "width 128: "),
        (lambda heads, length: 0.3, False, "level within noise"),
        (lambda heads, length: 0.03 * heads, False, "width 128: "),
        (lambda heads, length: 1e-5, None, "nothing left to learn"),
    ],
)
def test_a_control_is_judged_at_each_length_by_what_was_trained_there(error, holds, told):
    control = grid(error, variant="control")
    control["train_error"] *= 1 + 0.02 * (control.index % 3 - 1)  # more noise than the grid has
    control = control.query("length != 64 or heads < 8").assign(width=128)
    control["validation_error"] = 0.7
    verdict, validation, _ = follows(control, grid=GRID, narrow="control", width_fixed="a", heads_fixed="b")
    assert validation.holds is False and "level within noise" in validation.evidence
    assert verdict.holds is holds and told in verdict.evidence
    assert "T = 16, heads 1 to 8" in verdict.evidence and "T = 64, heads 1 to 4" in verdict.evidence


@pytest.mark.parametrize(("moved", "holds"), [(0.004, True), (0.03, False)])
def test_a_cell_trained_in_another_way_stands_beside_that_of_the_grid(moved, holds):
    other = grid(lambda *_: 0.2 + moved, variant="another way").query("heads == length == 8")
    both = pd.concat([grid(lambda *_: 0.2), other])
    both["validation_error"] = both["train_error"]
    (verdict,) = beside_the_grid(both, grid=GRID, others=("another way", "not trained"))
    assert verdict.holds is holds and "h = 8 and T = 8" in verdict.claim
    assert f"train {100 * (1 - other['train_error'].mean()):.1f}%" in verdict.evidence


def test_too_little_was_trained_to_tell():
    one_length = LIKE_THE_PAPER[LIKE_THE_PAPER["length"] == 8]
    assert falls_with_length(one_length).holds is None
    assert where_length_fades(one_length, CELLS).holds is None
    assert paper_s_law(one_length, CELLS).holds is None
    assert rises_with_heads(LIKE_THE_PAPER[LIKE_THE_PAPER["heads"] == 1]).holds is None
    (parted,) = follows(LIKE_THE_PAPER, grid=GRID, narrow="n", width_fixed="a", heads_fixed="b")
    assert parted.holds is None


def test_the_reversal_score_is_shown_for_both():
    cells = {
        (heads, length): 0.1 + (0.01 if heads < 4 else -0.001) * length
        for heads in HEADS
        for length in (8, 16)
    }
    found = reversal(LIKE_THE_PAPER, {**cells, (1, 4096): 0.0})
    assert found.holds is False
    told = "at no h that was trained; by the paper's numbers at these T at h = 4"
    assert found.evidence == told, "a length that was not trained does not count"
    assert reversal(grid(lambda heads, length: cells.get((heads, length), 0.01)), cells).holds


@given(
    a=st.floats(-3, -0.3),
    b=st.floats(-0.5, 1),
    c=st.floats(0.05, 1),
    delta=st.floats(0.05, 0.9),
)
def test_a_law_is_found_again_from_its_own_errors(a, b, c, delta):
    heads, length = (axis.ravel() for axis in np.meshgrid([2.0, 4, 6, 8], [8.0, 16, 32, 64]))
    law = Law(a, b, c, delta, 0.0)
    found = fit_law(heads, length, law.error(heads, length))
    assert found.unexplained < 1e-6
    np.testing.assert_allclose(found.error(heads, length), law.error(heads, length), rtol=1e-2)
    given_delta = fit_law(heads, length, law.error(heads, length), delta=delta)
    np.testing.assert_allclose([given_delta.a, given_delta.b], [a, b], atol=1e-6)


def test_intervals_of_the_law_hold_what_made_the_errors():
    """Nineteen times of twenty, as promised: of 200 draws no fewer than 180."""
    heads, length = (axis.ravel() for axis in np.meshgrid([2.0, 4, 6, 8], [8.0, 16, 32, 64]))
    random = np.random.default_rng(1)
    law, held = Law(-1.4, 0.4, 0.5, 0.25, 0.0), []
    for _ in range(200):
        wrong = law.error(heads, length) * np.exp(0.1 * random.normal(size=16))
        ends = law_intervals(heads, length, wrong, delta=0.25)
        low, high = delta_interval(heads, length, wrong)
        held.append(
            [ends[name][0] < getattr(law, name) < ends[name][1] for name in "abc"] + [low < 0.25 < high]
        )
    assert (np.sum(held, axis=0) >= 180).all() and (np.mean(held, axis=0) < 1).all()


@pytest.mark.parametrize(
    ("gaps", "where"),
    [((0.5, 0.2, 0.0), 4), ((0.5, 0.04, 0.0), 2), ((0.5, 0.4, 0.3), None), ((0, 0, 0), 1), ((-1, -2, -1), 1)],
)
def test_where_a_gap_fades(gaps, where):
    assert faded([1, 2, 4], np.array(gaps)) == where


def test_where_it_fades_has_an_interval_of_trained_head_counts():
    falling = grid(lambda heads, length: 0.01 * length / heads**4)
    assert "from h = 2 on (95% interval over seeds and trained head counts: between h = 1 and 2)" in (
        where_length_fades(falling, {}).evidence
    )
    wild = grid(lambda heads, length: 0.1)
    wild["train_error"] += np.where(wild["length"] == 64, 0.1 * np.random.default_rng(0).random(len(wild)), 0)
    assert where_length_fades(wild, {}).holds in (None, False)


def test_noise_between_seeds_is_no_fall_of_accuracy_and_a_real_fall_is_one():
    noisy = LIKE_THE_PAPER.copy()
    at = (noisy["heads"] == 8) & (noisy["length"] == 8)
    noisy.loc[at, "train_error"] = [0.001, 0.05, 0.001]
    assert rises_with_heads(noisy).holds
    noisy.loc[at, "train_error"] = [0.2, 0.21, 0.2]
    assert rises_with_heads(noisy).holds is False and "to h = 8 at T = 8" in rises_with_heads(noisy).evidence


@pytest.mark.parametrize(("by_heads", "by_width", "holds"), [(0.1, 0.3, True), (0.3, 0.1, False)])
def test_heads_and_width_are_parted_at_four_corners(by_heads, by_width, holds):
    wrong = {(1, 16): 0.5, (4, 16): by_heads, (1, 64): by_width, (4, 64): 0.05}
    variants = {(1, 16): GRID, (4, 64): GRID, (4, 16): "heads fixed", (1, 64): "width fixed"}
    rows = [(h, E, 8, wrong[h, E], variant) for (h, E), variant in variants.items()]
    frame = pd.DataFrame(rows, columns=["heads", "width", "length", "train_error", "variant"])
    frame["validation_error"] = 0.5
    *_, parted = follows(
        frame, grid=GRID, narrow="narrow", width_fixed="width fixed", heads_fixed="heads fixed"
    )
    assert parted.holds is holds and "from h = 1, E = 16 to h = 4, E = 64" in parted.evidence


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
        made = Outcome(trial.problem.start(0), error, error, error, 1, False, outputs)
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
