"""The region of the data, and refinement inside it."""

import jax
import numpy as np
import pytest
import theory.collisions.references as plain
from models.model_references import reference
from theory.collisions.references import BOWLS, EXTREMES, LENGTH, NORMAL, SEVERAL, data, plainly_inside, small

from headcount.tasks.library import bowls, max_sum
from headcount.theory.collisions.refine import SAME, Region, refine, units_of
from headcount.theory.constructions.specialise import specialise

REGIONS = {
    "normal": (NORMAL, 8),
    "normal, long": (max_sum(dimension=2, token_dim=2), 100),
    "normal, one token": (max_sum(dimension=2, token_dim=2), 1),
    "uniform numbers": (EXTREMES, 8),
    "uniform, long tokens": (bowls(dimension=2, token_dim=12), 3),
}


def far_out(task, length):
    """Sequences too large, too small, lopsided, at the origin, at the corners of the cube."""
    random = np.random.default_rng(0)
    scales = np.geomspace(1e-6, 1e6, 60)[:, None, None]
    around = scales * random.normal(size=(60, length, task.token_dim))
    lopsided = around.copy()
    lopsided[:, 0] *= 1000
    corners = random.integers(0, 2, size=(60, length, task.token_dim)).astype(float)
    nearly = data(task, 60, length=length) * random.uniform(0.7, 1.4, size=(60, 1, 1))
    return np.concatenate([around, lopsided, corners, nearly, np.zeros_like(corners[:1])])


def ask(region, x):
    """Which sequences are inside, what all are projected to, and which of these are inside."""

    def answer(sequence):
        projected = region.project(sequence)
        return region.contains(sequence), projected, region.contains(projected)

    with jax.enable_x64(True):
        return map(np.asarray, jax.jit(jax.vmap(answer))(x))


@pytest.mark.parametrize("name", REGIONS)
def test_the_region_is_the_plain_one_between_percentiles_of_the_data(name):
    task, length = REGIONS[name]
    region = Region.of_data(task, length)
    x = np.concatenate([data(task, 1000, length=length, seed=7), far_out(task, length)])
    inside, projected, projected_inside = ask(region, x)
    assert not inside[1000:].all() and projected_inside.all()
    np.testing.assert_allclose(projected[inside], x[inside], rtol=1e-12)
    assert inside.tolist() == [plainly_inside(region, each) for each in x]
    assert projected_inside.tolist() == [plainly_inside(region, each) for each in projected]
    norms = np.linalg.norm(x[:1000], axis=-1)
    assert ((region.norms[0] <= norms) & (norms <= region.norms[1])).mean() == pytest.approx(0.98, abs=0.01)
    if region.distribution == "normal":
        low, high = region.likelihoods
        likelihood = -(x[:1000] ** 2).sum(axis=(1, 2)) / 2
        assert ((low <= likelihood) & (likelihood <= high)).mean() == pytest.approx(0.98, abs=0.015)


@pytest.mark.parametrize("task", [BOWLS, NORMAL], ids=["uniform", "normal"])
def test_everywhere_is_the_support_of_the_sampler(task):
    x = far_out(task, LENGTH)
    _, projected, projected_inside = ask(Region.everywhere(task), x)
    assert projected_inside.all()
    np.testing.assert_array_equal(projected, np.clip(x, 0, 1) if task.distribution == "uniform" else x)


def check_pairs(model, task, region, units, found, tolerance=SAME):
    """Everything that a refined pair promises, recomputed in NumPy."""
    for first, second, target_gap, relative in zip(*found, strict=True):
        assert plainly_inside(region, first) and plainly_inside(region, second)
        target_gaps, gap = plain.apart(model, task, first, second)
        assert target_gap == pytest.approx((target_gaps / units.target).max(), rel=1e-9, abs=1e-12)
        assert target_gap >= 0
        if np.isfinite(relative):
            assert relative <= tolerance
            assert relative == pytest.approx(gap / units.representation, rel=1e-4, abs=1e-12)
        else:
            np.testing.assert_array_equal(first, second)


def test_units_are_plain_deviations():
    model, x = small(SEVERAL), data(SEVERAL, 40)
    units = units_of(model, SEVERAL, x)
    seen = np.stack([reference(model, each).representation for each in x])
    spread = np.sqrt(np.mean([np.sum((each - seen.mean(axis=0)) ** 2) for each in seen]))
    assert units.representation == pytest.approx(spread, rel=1e-12)
    wanted = np.stack([plain.targets(SEVERAL, each) for each in x])
    np.testing.assert_allclose(units.target, wanted.std(axis=0), rtol=1e-12)


def test_refined_pairs_of_normal_tokens_keep_their_promises_at_kinks_and_ties():
    task, region = NORMAL, Region.of_data(NORMAL, LENGTH)
    model, x = small(task, seed=2), data(task, 24)
    x[:4, 0] = (1.0, 0.0)  # the kink
    x[2:6, 1] = x[2:6, 2]  # a tie
    x[6] = 0.0
    units = units_of(model, task, data(task, 200))
    found = refine(model, task, region, units, (x[:12], x[12:]), steps=25, seed=0)
    check_pairs(model, task, region, units, found)
    assert np.isfinite(found.representation_gap).all()  # no pair was lost at a kink
    assert found.target_gap.max() > 1


DEEP = {
    "reads every layer": {"class_reads": "every", "residual": True},
    "causal, read at the last token": {"reader": "last token", "causal": True, "residual": True},
    # More numbers than two sequences have: E = 40 > 2·T·d = 32.
    "a wide stream": {
        "class_reads": "every",
        "residual": True,
        "residual_width": 40,
        "encoder_hidden": (48,),
    },
}


@pytest.mark.parametrize("options", DEEP.values(), ids=DEEP)
def test_two_layers_are_closed_to_rounding_where_that_is_asked_for(options):
    task, region, tolerance = NORMAL, Region.of_data(NORMAL, LENGTH), 1e-10
    model, x = small(task, seed=2, layers=2, **options), data(task, 24)
    units = units_of(model, task, data(task, 200))
    starts = x[:12], x[12:]
    found = refine(model, task, region, units, starts, steps=40, seed=0, tolerance=tolerance)
    check_pairs(model, task, region, units, found, tolerance)
    agreed = np.isfinite(found.representation_gap)
    if model.architecture.width < 2 * LENGTH * task.token_dim:
        assert agreed.sum() >= 10 and found.target_gap.max() > 1
    # What agrees to less is among what nearly agrees.
    nearly = refine(model, task, region, units, starts, steps=40, seed=0)
    assert agreed.sum() <= np.isfinite(nearly.representation_gap).sum()
    # A pair that agrees from the start is never lost.
    again = refine(
        model, task, region, units, (found.first, found.second), steps=1, seed=0, tolerance=tolerance
    )
    assert (again.target_gap[agreed] >= found.target_gap[agreed] * (1 - 1e-9)).all()


@pytest.mark.parametrize("task", [bowls(dimension=2, token_dim=2), EXTREMES], ids=["bowls", "extremes"])
def test_a_head_for_each_coordinate_leaves_no_collision_beyond_its_error(task):
    made = specialise(task, length=LENGTH, epsilon=1e-2)
    assert made.error.total <= 1e-2
    x = data(task, 24)
    first, second = np.concatenate([x[:12], x[:12]]), np.concatenate([x[12:], x[:12]])
    # The last twelve begin as one: what is no extremum may move, and so may, in step, what is.
    second[12:, ::2] += 0.01 * np.random.default_rng(0).normal(size=second[12:, ::2].shape)
    units = units_of(made.model, task, data(task, 200))
    found = refine(made.model, task, Region.everywhere(task), units, (first, second), steps=60, seed=0)
    check_pairs(made.model, task, Region.everywhere(task), units, found)
    assert np.isfinite(found.representation_gap).sum() >= 6
    assert (found.target_gap * units.target[0]).max() <= 2 * made.epsilon
