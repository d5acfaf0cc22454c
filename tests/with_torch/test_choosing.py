"""Ways to choose heads: what they score, and that the best of them is taken."""

import numpy as np
import pytest
import torch
from planted import batches, planted
from small_models import MODELS, batch_of, model_of

from headcount.trained.count import Samples, Study
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.effect import answer_of
from headcount.trained.importance import gate_gradients, importance_of

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", [name for name in MODELS if name != "torch, tokens first"])
def test_every_head_of_every_family_has_a_score(name):
    model = prepared(model_of(name))
    blocks = attention_blocks(model)
    scores = [importance_of(each) for each in gate_gradients(model, blocks, [batch_of(name)])]
    assert [each.shape for each in scores] == [(4,)] * len(blocks)
    assert all((each > 0).all() for each in scores)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_scores_are_derivatives_by_a_gate_on_each_head():
    """Σ z · ∂L/∂z is the derivative by a factor on the head: here by differences, for a fixed embedding."""
    model, (batch,) = prepared(model_of("distilbert")), [batch_of("distilbert", samples=1)]
    blocks = attention_blocks(model)
    direction = torch.randn(16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def goal(head, factor):
        gated = prepared(model)
        block = attention_blocks(gated)[1]
        weight = block.output_weight().reshape(block.heads, block.head_dim, -1)
        weight[head] *= factor
        block.set_output(weight.reshape(-1, block.width), block.output_bias())
        with torch.no_grad():
            values = answer_of(gated(**batch), batch).values
        return float((torch.nn.functional.normalize(values, dim=-1) @ direction).sum())

    step = 1e-5
    wanted = [abs(goal(head, 1 + step) - goal(head, 1 - step)) / (2 * step) for head in range(4)]
    found = importance_of(gate_gradients(model, blocks, [batch])[1])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_a_model_without_gradients_has_no_scores():
    class Rounded(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, **inputs):
            return self.model(**inputs).last_hidden_state.detach()

    model = prepared(Rounded(model_of("distilbert")))
    assert gate_gradients(model, attention_blocks(model), [batch_of("distilbert")]) is None


def test_the_way_that_changes_the_model_least_is_taken():
    study = Study(prepared(planted()[1]), Samples.of(batches(6), seed=0), tolerance=1e-3)
    effects = study.way_effects
    assert set(effects) == {"elimination", "cautious elimination", "gradient", "mixture"}
    assert effects[study.way] == min(effects.values()) < 1e-6 < effects["gradient"]
