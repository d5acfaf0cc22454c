"""The count of heads: of models whose heads are known, and what it promises of any."""

import pytest
import torch
from planted import batches, planted
from small_models import outputs_of

from headcount.trained.choosing import ways_to_choose
from headcount.trained.count import Samples, Study
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.fitting import shrunk
from headcount.trained.taps import targets_of

pytestmark = pytest.mark.torch


def study(model, given, **options):
    return Study(prepared(model), Samples.of(given, seed=0), **{"tolerance": 1e-4, **options})


def test_the_spread_model_is_the_same():
    model, spread = planted()
    for batch in batches(2):
        torch.testing.assert_close(
            outputs_of(spread, (batch,)), outputs_of(model, (batch,)), rtol=0, atol=1e-9
        )


def test_half_of_spread_heads_are_enough_once_refitted():
    _, spread = planted()
    given = batches(8)
    targets = targets_of(spread, attention_blocks(spread), given)
    choose = ways_to_choose(targets.blocks, None)["elimination"]
    found = shrunk(spread, targets, (4, 4, 4), choose, [1e-8] * 3)
    assert found.counts == (4, 4, 4)
    fresh = batches(1, seed=99)[0]
    torch.testing.assert_close(
        outputs_of(found.model, (fresh,)), outputs_of(spread, (fresh,)), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("seed", range(3))
def test_spread_heads_are_counted_as_they_were(seed):
    _, spread = planted(seed=seed)
    counted = study(spread, batches(10)).run()
    assert [len(descent.found.kept[layer]) for layer, descent in enumerate(counted.layers)] == [4, 4, 4]
    assert counted.uniform.found.counts == (4, 4, 4)
    assert counted.free.found.heads == 12
