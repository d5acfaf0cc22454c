"""Models of `benchmarks/planting.py`: the change keeps the function, and inspecting undoes it."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_models import outputs_of

import headcount as hc
from headcount.trained.discovery import attention_blocks
from headcount.trained.refit import Moments, columns_of

pytestmark = pytest.mark.torch

FILE = Path(__file__).parents[2] / "benchmarks" / "planting.py"
SPEC = importlib.util.spec_from_file_location("planting", FILE)
planting = sys.modules["planting"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(planting)

FAMILIES = planting.FAMILIES


def answers(model, batch):
    return outputs_of(model, batch if isinstance(batch, dict) else (batch,))


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_that_are_spread_do_what_the_real_ones_did(family):
    pair = planting.planted(family, layers=2, seed=1, noise=0.0)
    heads = [[block.heads for block in attention_blocks(model)] for model in (pair.real, pair.spread)]
    assert heads == [[4, 4], [8, 8]]
    (batch,) = planting.batches_for(family, count=1, seed=2)
    torch.testing.assert_close(answers(pair.spread, batch), answers(pair.real, batch), rtol=0, atol=1e-3)


@pytest.mark.parametrize("family", ["llama", "vit"])
def test_no_spread_head_is_a_copy(family):
    block = attention_blocks(planting.planted(family, layers=1, seed=0, noise=0.0).spread)[0]
    weights = [block.weights(which) for which in range(3)]
    weights.append(block.output_weight().reshape(8, 8, -1))
    for each in weights:
        rows = each.reshape(8, -1) / np.linalg.norm(each.reshape(8, -1), axis=1, keepdims=True)
        assert np.abs(np.triu(rows @ rows.T, 1)).max() < 0.95


def test_noise_is_as_large_as_it_says():
    without, some = (
        attention_blocks(planting.planted("bert", layers=1, seed=0, noise=noise).spread)[0].output_weight()
        for noise in (0.0, 1e-3)
    )
    assert np.std(some - without) == pytest.approx(1e-3 * np.std(without), rel=0.1)


@pytest.mark.parametrize("family", ["llama", "torch"])
def test_heads_with_noise_are_counted_as_they_were(family):
    pair = planting.planted(family, layers=2, seed=3, noise=1e-3)
    found = hc.inspect(pair.spread, planting.batches_for(family, count=4, seed=3), tolerance=1e-3)
    assert found.frame["needed"].tolist() == [4, 4]
    assert found.plan.uniform.heads == found.plan.free.heads == 8


@pytest.mark.parametrize("seed", range(3))
def test_values_mixed_among_themselves_need_one_head_and_with_others_need_both(seed):
    """What the planted change may do, and what no removal undoes."""
    random = np.random.default_rng(seed)
    values, others = random.normal(size=(2, 200, 3))
    written = values @ random.normal(size=(3, 5))
    turns = random.normal(size=(2, 3, 3))
    among = np.hstack([values @ turn for turn in turns])
    with_others = np.hstack([values, others]) @ random.normal(size=(6, 6))
    one, both = columns_of([0], 3), columns_of([0, 1], 3)
    for outputs, enough in ((among, True), (with_others, False)):
        found = Moments.of(outputs, written).centred().with_ridge(0)
        assert found.error_left(both) < 1e-6 * found.variance
        assert bool(found.error_left(one) < 1e-6 * found.variance) == enough
