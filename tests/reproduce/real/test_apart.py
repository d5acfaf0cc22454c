"""Heads, head size and width each alone: what is trained, and verdicts on errors known beforehand."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from reproduce.invented import invented_frame
from reproduce.real.small import images, rankings
from scipy.stats import t as student

from headcount.reproduce import planted
from headcount.reproduce.real.apart import (
    ALONE,
    APART,
    EVENLY,
    FULLY,
    HARDEST,
    MEAN,
    PLANTED,
    PLANTED_DEEP,
    SWEEP,
    trials_of,
)
from headcount.reproduce.real.apart_verdicts import MOSTLY, apart_verdicts
from headcount.reproduce.real.early import early_verdicts, enough
from headcount.reproduce.real.planted_lists import D, features, planted_lists
from headcount.reproduce.real.positive import as_well_as, falls_most
from headcount.reproduce.real.training import SKETCH, looks
from headcount.reproduce.real.trial import RealData, samples_of
from headcount.reproduce.real.variants import GRID
from headcount.reproduce.recipe import FULL, QUICK


def read(name):
    data = images() if name == "cifar10" else rankings(candidates=64, queries=200)
    return RealData.read(name, data, data.train_images if name == "cifar10" else data.queries)


def named(name):
    return trials_of(name, read(name))


def rows_of(trials, error, *, early=None, spread=0.002):
    """Rows with the errors of a formula, a little apart from seed to seed; looks see those of `early`."""
    frames = []
    for variant, members in trials.items():
        frame = invented_frame(members, lambda trial: error(trial) + spread * (trial.seed % 3))
        if early is not None:
            frame["scores"] = [scores(trial, early(trial)) for trial in by_row(frame, members)]
        frames.append(frame.assign(variant=variant))
    return pd.concat(frames, ignore_index=True)


def by_row(frame, trials):
    known = {trial.id: trial for trial in trials}
    return [known[trial] for trial in frame["trial"]]


def scores(trial, error):
    """What the looks have seen: an error, and answers that lie as far from the best as the error is large."""
    random, found = np.random.default_rng(trial.seed), {}
    for look in ("early_5_", "early_10_"):
        sketch = error * np.ones(SKETCH) + 0.01 * random.normal(size=SKETCH)
        seen = {"validation_error": error + 0.002 * (trial.seed % 3), "tokens_that_matter": 3.0}
        found |= {look + name: value for name, value in seen.items()}
        found |= {f"{look}sketch_{place}": value for place, value in enumerate(sketch)}
    return json.dumps(found)


def shape(trial):
    encoder = trial.architecture.encoder
    return encoder.width, encoder.heads, encoder.head_dim


def verdict(frame, words):
    (found,) = (each for each in apart_verdicts(frame) if words in each.claim)
    return found


@pytest.mark.parametrize(("name", "size"), [("cifar10", 16), ("msmarco", 32)])
def test_each_of_heads_size_and_width_varies_alone(name, size):
    trials = named(name)
    narrow, wide = size, 8 * size
    corners = {(width, *heads) for width in (narrow, wide) for heads in ((1, size), (8, size))}
    corners |= {(width, *heads) for width in (narrow, wide) for heads in ((8, size // 8), (1, 8 * size))}
    assert {shape(trial) for trial in trials[APART]} == corners
    assert {shape(trial) for trial in trials[SWEEP]} == {(wide, heads, size) for heads in (1, 2, 4, 8)}
    assert {shape(trial) for trial in trials[GRID]} == {(heads * size, heads, size) for heads in (1, 2, 4, 8)}
    every = [trial for members in trials.values() for trial in members]
    assert all(trial.architecture.encoder.feedforward == 4 * trial.architecture.width for trial in every)
    assert all(set(looks(trial.training)) == {0.05, 0.1} for trial in every)
    assert all(trial.architecture.encoder.mixing == "mean" for trial in trials[MEAN])
    assert (ALONE in trials) == (name == "msmarco")
    for variant in {*trials} - {PLANTED, PLANTED_DEEP}:
        cells = pd.DataFrame([(shape(t), t.length, t.task, t.learning_rate, t.seed) for t in trials[variant]])
        assert (cells.groupby([0, 1])[3].nunique() == 3).all() and (
            cells.groupby([0, 1])[4].nunique() == 5
        ).all()


def test_lists_that_hold_all_negatives_are_trained_once():
    trials = named("msmarco")
    longest = [{trial for trial in trials[variant] if trial.length == 64} for variant in (HARDEST, EVENLY)]
    assert longest[0] == longest[1] and len(longest[0]) == 2 * 3 * 5
    assert all(trial.task.drawn_evenly for trial in trials[EVENLY] if trial.length == 8)


@pytest.mark.parametrize(
    ("error", "holds", "rising"),
    [
        (lambda trial: 4 / trial.architecture.width, True, "a width of 128"),
        (lambda trial: 0.5 / trial.architecture.heads, False, "8 heads for 1, each of 16"),
        (lambda trial: 8 / trial.architecture.encoder.inner, False, "8 heads for 1, each of 16"),
        (lambda trial: 0.3, None, None),
    ],
)
def test_it_is_the_width_where_errors_follow_the_width(error, holds, rising):
    frame = rows_of({APART: named("cifar10")[APART]}, error)
    assert verdict(frame, MOSTLY).holds is holds
    for what in ("8 heads for 1, each of 16", "a width of 128"):
        found = verdict(
            frame,
            f"{what} numbers: training"
            if "heads" in what
            else f"{what} for 16, of tokens and (4E) of the feed-forward: training",
        )
        assert found.holds is (True if what == rising else None), found


def test_the_size_of_a_head_is_told_from_their_number():
    frame = rows_of({APART: named("cifar10")[APART]}, lambda trial: 0.6 / trial.architecture.head_dim**0.5)
    assert verdict(frame, "128 numbers for 16 in 1 head: training").holds is True
    assert verdict(frame, "of as many numbers together: training").holds is False


def test_without_attention_or_without_rows_verdicts_say_so():
    trials = named("cifar10")
    trials = {variant: trials[variant] for variant in (APART, MEAN)}
    frame = rows_of(trials, lambda trial: 0.6 if trial.architecture.encoder.mixing == "mean" else 0.2)
    assert (
        verdict(frame, "attention in place of this, a mean over tokens for attention: training").holds is True
    )
    (found,) = apart_verdicts(frame[:0])
    assert (found.claim, found.holds, found.evidence) == (MOSTLY, None, "not trained yet")


def test_a_rate_at_the_edge_is_named():
    best = {16: 3e-3, 128: 3e-4}

    def error(trial):
        return 0.1 + abs(np.log(trial.learning_rate / best[trial.architecture.width])) / 10

    found = verdict(rows_of({APART: named("cifar10")[APART]}, error), "best rate inside")
    assert found.holds is False
    assert found.evidence == "E = 16: 0.003 of 0.001, 0.003, 0.01; E = 128: 0.0003 of 0.0003, 0.001, 0.003"


def test_lists_with_negatives_of_one_difficulty_are_held_against_the_hardest():
    trials = named("msmarco")

    def error(trial):
        return 0.1 + 0.2 * (trial.length == 64) + 0.1 * (trial.length == 8 and not trial.task.drawn_evenly)

    frame = rows_of({variant: trials[variant] for variant in (HARDEST, EVENLY)}, error)
    found = verdict(frame, "falls more with T, from 8 to 64")
    assert found.holds is True and "10.0 points" in found.evidence
    (low, high) = map(float, re.search(r"10.0 points \((.*?) to (.*?)\)", found.evidence).groups())
    seeds = 100 * np.array([0.002 * (seed % 3) for seed in range(5)])  # at T = 64 both are the same members
    reach = student.ppf(0.975, 8) * np.sqrt(2 * seeds.var(ddof=1) / 5)
    np.testing.assert_allclose([low, high], [10 - reach, 10 + reach], atol=0.06)
    assert verdict(frame, f"{HARDEST}: training accuracy is lower").holds is True


def test_right_answers_of_planted_lists_are_those_of_the_formula():
    data = read("msmarco")
    made = planted_lists(data, length=6, train=300, validation=90)
    given, lists = data.data, made.data.rankings
    assert made.fingerprint == planted_lists(data, length=6, train=300, validation=90).fingerprint
    pool = np.unique(given.rankings.train.passages)
    known = features(given.passages, pool)
    np.testing.assert_allclose(np.corrcoef(known[pool].T), np.eye(D + 1), atol=1e-6)
    sums = [sum(max(known[p, i] for p in row) for i in range(D)) for row in lists.train.candidates]
    for split, own in ((lists.train, given.rankings.train), (lists.validation, given.rankings.validation)):
        assert set(split.candidates.ravel()) <= set(own.passages.ravel()) and set(split.query) <= set(
            own.query
        )
        for row, label in zip(split.candidates, split.label, strict=True):
            asked = (sum(max(known[p, i] for p in row) for i in range(D)) - np.mean(sums)) / np.std(sums)
            assert label == np.argmin([abs(known[p, D] - asked) for p in row])
    (trial, *_) = named("msmarco")[PLANTED]
    assert samples_of(trial).train.candidates.shape == (20_000, 16)


def test_planted_images_have_classes_of_one_size_that_three_maxima_decide():
    data = planted.planted(400, 100).data
    x, y = data.train_images, data.train_labels
    sums = x.reshape(len(x), -1, 3).max(axis=1).astype(int).sum(axis=1)
    assert all((x[:, ::8, ::8].repeat(8, 1).repeat(8, 2) == x).ravel())
    order = np.argsort(sums, kind="stable")
    assert (np.diff(y[order])[np.diff(sums[order]) > 0] >= 0).all() and set(y) == set(range(10))


def groups(*means, spread=0.02, seeds=5):
    random = np.random.default_rng(1)
    return {
        h: mean * np.exp(spread * random.normal(size=seeds))
        for h, mean in zip((1, 2, 3, 4, 6), means, strict=False)
    }


@pytest.mark.parametrize(
    ("wrong", "holds"),
    [
        (groups(0.8, 0.7, 0.2, 0.19, 0.19), True),
        (groups(0.8, 0.3, 0.28, 0.27, 0.27), False),
        (groups(0.8, 0.4, 0.2, 0.19, 0.19, spread=0.3), None),
        (groups(0.8, 0.7, 0.2, 0.19, 0.19, seeds=1), None),
        ({}, None),
    ],
)
def test_the_planted_dimension_is_where_the_share_wrong_falls_most(wrong, holds):
    assert falls_most("lists", wrong, at=3).holds is holds


def test_one_head_in_several_layers_is_held_to_a_factor_of_two():
    few = groups(0.11, 0.1, 0.1)
    assert as_well_as("two layers", few, few=1, many=3).holds is True
    assert as_well_as("two layers", groups(0.5, 0.3, 0.1), few=1, many=3).holds is False
    assert as_well_as("two layers", {1: few[1]}, few=1, many=3).holds is None
    assert as_well_as("two layers", groups(0.9, 0.9, 0.9), few=1, many=3).holds is None


def errors_at(trial):
    return {1: 0.6, 2: 0.4, 4: 0.2, 8: 0.2}[trial.architecture.heads]


@pytest.mark.parametrize(
    ("early", "order", "many", "near", "undecided"),
    [
        (errors_at, True, True, True, 0),
        (lambda trial: 0.9 - errors_at(trial), False, False, True, 0),
        (lambda trial: 0.9, None, False, False, 5),
    ],
)
def test_what_is_seen_early_is_held_against_the_end(early, order, many, near, undecided):
    frame = rows_of({SWEEP: named("cifar10")[SWEEP]}, errors_at, early=early)
    verdicts = {each.claim: each for each in apart_verdicts(frame) if SWEEP in each.claim}
    found = {claim: each.holds for claim, each in verdicts.items()}
    for share in ("5%", "10%"):
        when = f"{SWEEP}: after {share} of the training"
        ordered = f"{when} the order of head counts by validation error is that at the end"
        assert found[ordered] is order
        assert f", {undecided} undecided; early" in verdicts[ordered].evidence
        assert found[f"{when} as many heads are enough by validation error as at the end"] is many
        assert (
            found[f"{when} as many heads are enough by the distance of answers as by error at the end"]
            is near
        )
        assert (
            found[f"{when} as many tokens matter to the most heads as heads are enough at the end"] is False
        )


def test_where_no_head_count_is_better_nothing_is_foretold():
    frame = rows_of({SWEEP: named("cifar10")[SWEEP]}, lambda trial: 0.3, early=errors_at)
    assert {each.holds for each in apart_verdicts(frame) if SWEEP in each.claim} == {None}


def test_looks_that_were_not_taken_are_said_to_be_missing():
    frame = rows_of({SWEEP: named("cifar10")[SWEEP]}, errors_at)
    assert {each.evidence for each in early_verdicts(SWEEP, frame)} == {"not looked at"}


def test_enough_is_1_where_no_larger_count_is_better():
    assert enough({1: np.array([0.3, 0.31, 0.3]), 8: np.array([0.3, 0.3, 0.31])}) == 1


def test_the_planted_images_are_judged_by_their_rows():
    recipe = replace(FULL, seeds=5)
    trials = planted.ITEM.named(recipe)
    frame = rows_of(trials, lambda t: 0.7 if t.architecture.layers == 1 and t.architecture.heads < D else 0.2)
    holds = [found.holds for found in planted.judge(frame)[:2]]
    assert holds == [True, True]
    assert [panel.enough for panel in planted.panels(frame)] == [D, 1]
    assert planted.judge(frame[:0])[0].holds is None
    assert len(planted.ITEM.trials(QUICK)) == 2 * 7
    assert FULLY.keys() == {"cifar10", "msmarco"}
