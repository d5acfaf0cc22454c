"""`collide` from start to finish."""

import doctest
import itertools
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import theory.collisions.references as plain
from models.model_references import double
from theory.collisions.references import BOWLS, EXTREMES, LENGTH, SEVERAL, positional, small

from headcount.errors import InvalidInput
from headcount.tasks.retrieval import RetrievalTask
from headcount.theory.collisions.collide import _POOL, _best, collide, pairs_of_data
from headcount.theory.collisions.pigeonhole import GAP, ROUNDING
from headcount.theory.collisions.refine import Pairs, Region, Units, units_of

DOCUMENT = Path(__file__).parents[3] / "docs" / "theory" / "collide.md"


def check_collisions(model, task, found):
    """Every number of both collisions from their sequences, and JSON that takes them all."""
    model = double(model)
    with jax.enable_x64(True):
        pool = np.asarray(task.inputs(jax.random.key(0), _POOL, found.length))
    units = units_of(model, task, pool)
    regions = Region.of_data(task, found.length), Region.everywhere(task)
    for part, region in zip((found.inside, found.anywhere), regions, strict=True):
        target_gaps, gap = plain.apart(model, task, part.first, part.second)
        assert part.absolute_gap == pytest.approx(target_gaps.max(), rel=1e-9)
        assert part.target_gap == pytest.approx((target_gaps / units.target).max(), rel=1e-9)
        assert part.representation_gap <= found.tolerance
        assert part.representation_gap == pytest.approx(gap / units.representation, rel=1e-3, abs=1e-12)
        measured = max(part.representation_gap, ROUNDING) * units.representation
        assert part.lipschitz == pytest.approx(part.absolute_gap / measured, rel=1e-9)
        allowed = found.tolerance * units.representation
        assert part.lipschitz_at_least == pytest.approx(part.absolute_gap / allowed, rel=1e-9)
        assert 0 <= part.typical_gap <= part.target_gap
        assert 0 < part.agreed <= part.tried
        assert plain.plainly_inside(region, part.first) and plain.plainly_inside(region, part.second)
    assert found.anywhere.target_gap >= found.inside.target_gap == found.statistic
    loaded = json.loads(json.dumps(found.to_json(), allow_nan=False))
    np.testing.assert_array_equal(loaded["inside"]["first"], found.inside.first)
    np.testing.assert_array_equal(loaded["anywhere"]["second"], found.anywhere.second)


def test_the_examples_of_the_document_run_and_find_what_one_head_cannot_see():
    example = doctest.DocTestParser().get_doctest(DOCUMENT.read_text("utf-8"), {}, "collide.md", None, 0)
    done = doctest.DocTestRunner().run(example, clear_globs=False)
    assert done.attempted > 5 and done.failed == 0
    model, task, found = (example.globs[name] for name in ("model", "task", "found"))
    assert (found.heads, task.dimension) == (1, 3)
    check_collisions(model, task, found)
    assert found.statistic > 1
    assert not found.why_not_binned
    assert found.binned.target_gap >= GAP * found.binned.epsilon
    binned = found.to_json()["binned"]
    assert binned["lipschitz"] == binned["target_gap"] / max(binned["representation_gap"], 1e-13)


def test_two_layers_that_read_in_both_collide_to_a_tolerance():
    model = small(BOWLS, seed=1, layers=2, class_reads="every", residual=True)
    found = collide(model, BOWLS, length=6, pairs=6, steps=60, candidates=2, tolerance=1e-9)
    assert (found.layers, found.tolerance, found.binned) == (2, 1e-9, None)
    assert found.why_not_binned == "layers: expected 1, as the proof's bins are for one layer, got 2"
    check_collisions(model, BOWLS, found)
    assert found.inside.agreed >= 5 and found.statistic > 1


@pytest.mark.long
def test_two_layers_with_several_outputs_are_refined_not_binned_and_found_again():
    model = jax.tree.map(jnp.asarray, small(SEVERAL, seed=5, layers=2))
    assert model.class_token.dtype == jnp.float32
    settings = {"length": 6, "pairs": 6, "steps": 40, "candidates": 2}
    found = collide(model, SEVERAL, **settings)
    assert found.binned is None and found.to_json()["binned"] is None
    assert "layers: expected 1" in found.why_not_binned
    check_collisions(model, SEVERAL, found)
    again = collide(model, SEVERAL, **settings)
    assert json.dumps(again.to_json()) == json.dumps(found.to_json())


def test_the_absolute_gap_is_that_of_the_outputs_that_differ():
    unequal = RetrievalTask(
        name="two outputs, the first a hundred times as large",
        token_dim=1,
        coordinate_functions=(lambda x: x[0], lambda x: x[0]),
        extrema=("max", "min"),
        outer=lambda z: jnp.stack([100 * z[0], z[1]]),
    )
    first, second = np.array([[[1.0], [0.5]]]), np.array([[[1.0], [0.1]]])
    found = Pairs(first, second, np.array([4.0]), np.array([1e-6]))
    best = _best(found, unequal, Units(2.0, np.array([10.0, 0.1])))
    assert best.absolute_gap == pytest.approx(0.4)
    assert best.lipschitz == pytest.approx(0.4 / 2e-6)


def test_where_nothing_agreed_nothing_is_claimed():
    x = np.full((3, 4, 1), 0.5)
    nothing = _best(Pairs(x, x, np.zeros(3), np.full(3, np.inf)), EXTREMES, Units(1.0, np.ones(1)))
    gaps = nothing.target_gap, nothing.absolute_gap, nothing.representation_gap, nothing.typical_gap
    assert (*gaps, nothing.lipschitz, nothing.agreed, nothing.tried) == (0, 0, 0, 0, 0, 0, 3)
    json.dumps(nothing.to_json(), allow_nan=False)


def test_starts_of_the_data_are_different_pairs_and_half_of_them_near():
    model, x = small(BOWLS), plain.data(BOWLS, 30)
    units = units_of(model, BOWLS, x)
    first, second = pairs_of_data(model, BOWLS, x, units, 10, 0)
    index = {each.tobytes(): place for place, each in enumerate(x)}
    pairs = [(index[a.tobytes()], index[b.tobytes()]) for a, b in zip(first, second, strict=True)]
    assert len(pairs) == 10 and all(a != b for a, b in pairs)
    ratio = {}
    for a, b in itertools.combinations(range(30), 2):
        target_gaps, gap = plain.apart(model, BOWLS, x[a], x[b])
        wanted = target_gaps[0] / units.target[0]
        ratio[a, b] = wanted / (gap / units.representation + 1e-3) if wanted > 0.2 else 0
    assert set(pairs[:5]) == set(sorted(ratio, key=ratio.__getitem__)[-5:])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"pairs": 2049}, "pairs: expected an integer from 2 to 2048, got 2049"),
        ({"epsilon": -1.0}, "epsilon: expected"),
        ({"seed": 2**63}, "seed: expected"),
        ({"tolerance": 0.0}, "tolerance: expected a finite number >= 1e-12, got 0.0"),
        ({"model": small(SEVERAL)}, "token_dim = 1, output_dim = 3 of the model: bowls has 2 and 1"),
        ({"model": positional(BOWLS, length=4)}, "length: expected at most 4, the positions of this model"),
        ({"model": jax.tree.map(np.zeros_like, small(BOWLS))}, "the same for every sequence"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_input_is_refused_in_one_line(wrong, words):
    given = {"model": small(BOWLS), "length": LENGTH, "pairs": 4, "steps": 2, "candidates": 10} | wrong
    with pytest.raises(InvalidInput, match=words) as refusal:
        collide(given.pop("model"), BOWLS, **given)
    assert "\n" not in str(refusal.value)
