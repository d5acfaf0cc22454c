"""Salience and collisions beside the sweep: they may widen its interval, and never change its D."""

from dataclasses import replace

import numpy as np
import pytest
from believable_curves import sweep
from small_study import train_all

from headcount.data.arrays import data_set
from headcount.estimate import evidence
from headcount.estimate.collisions import CollisionGaps, can_be_moved, collision_gaps
from headcount.estimate.evidence import adjust_for_collisions, adjust_for_pooling, adjust_for_salience
from headcount.estimate.members import MemberRecipe
from headcount.estimate.study import Study
from headcount.estimate.verdict import Estimate, decide
from headcount.models.transformer import Transformer
from headcount.results.store import Store
from headcount.tasks.library import bowls
from headcount.theory.constructions.specialise import specialise

pytestmark = pytest.mark.usefixtures("compiled_quickly")

RANDOM = np.random.default_rng(0)
THREE = Estimate(3, (3, 3), "retrieval", 3, {3: 1.0}, (), (), ("the sweep shows it.",))


@pytest.mark.parametrize(
    ("tokens", "interval"), [(None, (3, 3)), (3, (3, 3)), (4, (3, 4)), (2, (2, 3)), (5, (3, 5)), (9, (3, 3))]
)
def test_another_number_of_tokens_that_matter_widens_the_interval(tokens, interval):
    found = adjust_for_salience(THREE, tokens=tokens)
    assert (found.dimension, found.interval) == (3, interval)
    assert (len(found.reasons) > 1) == (interval != (3, 3))


def test_far_fewer_tokens_than_heads_contradict_the_sweep():
    seven = replace(THREE, dimension=7, interval=(6, 7))
    found = adjust_for_salience(seven, tokens=2)
    assert (found.dimension, found.verdict, found.recommended_heads) == (None, "cannot tell", None)
    assert "2 tokens" in found.sentence and "the sweep gives D = 7" in found.sentence
    assert adjust_for_salience(seven, tokens=5).dimension == 7


def test_a_target_that_moves_with_every_token_and_hardly_falls_needs_one_head():
    found = decide(sweep(3))
    here = found.errors[2]
    flat = replace(found, errors=tuple(replace(here, heads=h) for h in range(1, 9)))
    assert adjust_for_pooling(flat, 0.3, count=10, recommended=1) is flat
    # A sequence of four tokens, three of which are retrieved.
    assert adjust_for_pooling(flat, 1.0, count=4, recommended=1) is flat
    seen = adjust_for_pooling(flat, 0.9, count=14, recommended=2)
    assert (seen.dimension, seen.interval, seen.verdict) == (1, (1, 1), "one head is enough")
    assert seen.recommended_heads == 2 and "pools" in seen.sentence
    assert seen.probabilities[1] == 1 and sum(seen.probabilities.values()) == 1
    alone = decide(sweep(1))
    assert adjust_for_pooling(alone, 1.0, count=16, recommended=1) is alone


@pytest.mark.parametrize("dimension", [2, 4])
def test_pooling_never_overrides_a_large_fall(dimension):
    found = decide(sweep(dimension))
    seen = adjust_for_pooling(found, 1.0, count=16, recommended=1)
    assert (seen.dimension, seen.verdict, seen.pools) == (dimension, "retrieval", True)
    assert seen.recommended_heads == dimension and "averages" in seen.sentence
    assert seen.interval == ((3, 4) if dimension == 4 else (2, 2)), "D - 1, but never 1"
    assert ("the interval includes both" in seen.reasons[-1]) == (dimension == 4)
    assert ("retrieval alone would be 1" in seen.reasons[-1]) == (dimension == 2)


def test_no_reason_claims_a_dimension_that_the_interval_leaves_out():
    """The curves of this one fall too far for 1, whatever the other evidence says."""
    two = decide(sweep(2))
    one_token = adjust_for_salience(two, tokens=1)
    narrow = adjust_for_collisions(two, (pair(1, 0.2), pair(2, 0.1)))
    for found in (one_token, narrow):
        assert found.interval == (2, 2) and "too far" in found.reasons[-1]
        assert "includes both" not in found.reasons[-1] and "remains possible" not in found.reasons[-1]
    assert "1 token of a sequence matters" in one_token.reasons[-1]
    assert "1 head cannot" in narrow.reasons[-1]
    with_ids = adjust_for_salience(two, tokens=1, ids=True)
    assert with_ids.interval == (1, 2) and "includes both" in with_ids.reasons[-1]


def pair(heads, gap, agreed=16):
    return CollisionGaps(heads, gap, gap, agreed, 16)


def test_wide_gaps_below_d_confirm_it_and_narrow_ones_leave_less_possible():
    assert adjust_for_collisions(THREE, ()) == THREE
    assert adjust_for_collisions(THREE, (pair(2, 1.0, agreed=0), pair(3, 0.1))) == THREE
    assert adjust_for_collisions(THREE, (pair(2, 1.0), pair(3, 0.1))).interval == (3, 3)
    assert adjust_for_collisions(THREE, (pair(2, 0.2), pair(3, 0.1))).interval == (2, 3)
    unknown = replace(THREE, dimension=None, interval=None)
    assert adjust_for_collisions(unknown, (pair(2, 1.0), pair(3, 0.1))) == unknown


def test_a_member_with_too_few_heads_has_wide_gaps_at_one_representation():
    """The wide member is the construction with D heads; one head that was drawn at random is beside it."""
    wide = specialise(bowls(dimension=2, token_dim=2), length=4, epsilon=0.05).model
    x = RANDOM.random(size=(256, 4, 2))
    few = Transformer.initialise(replace(wide.architecture, heads=1), seed=0)
    blind, seeing = collision_gaps(few, wide, x), collision_gaps(wide, wide, x)
    assert blind.heads == 1 and seeing.heads == 2
    assert blind.agreed and blind.typical_gap > 3 * seeing.typical_gap


def test_pairs_are_looked_for_where_tokens_are_points_and_targets_numbers():
    x, y = RANDOM.normal(size=(300, 4, 2)), RANDOM.normal(size=300)
    assert can_be_moved(data_set(x, y))
    assert not can_be_moved(data_set(x, (y > 0).astype(int), target="labels"))
    assert not can_be_moved(data_set(RANDOM.integers(0, 5, size=(300, 4)), y))
    mask = np.ones((300, 4), bool)
    mask[:, -1] = RANDOM.random(300) < 0.5
    assert not can_be_moved(data_set(x, y, mask))


def test_a_doubtful_estimate_has_its_pairs_in_evidence(tmp_path, monkeypatch):
    x = RANDOM.normal(size=(600, 4, 2))
    data = data_set(x, x[:, :, 0].max(axis=1) + x[:, :, 1].max(axis=1))
    recipe = MemberRecipe(steps=200, batch_size=32, starts=((1e-2, 0),), more_starts=(), max_heads=3)
    asked = Study(data, Store(tmp_path), recipe, positions=False)
    train_all(asked)
    decided = evidence.decide(asked.curve(asked.sweep().trials))
    for interval, count in (((1, 2), 2), ((2, 2), 0)):
        found = replace(decided, dimension=2, interval=interval, verdict="retrieval")
        monkeypatch.setattr(evidence, "decide", lambda curve, found=found, **_: found)
        monkeypatch.setattr(evidence, "adjust_for_salience", lambda found, **_: found)
        pairs = evidence.estimate_of(asked).evidence["collisions"]
        assert [row["heads"] for row in pairs] == [1, 2][:count]
