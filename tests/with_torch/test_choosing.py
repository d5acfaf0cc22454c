"""Ways to choose heads: what they score, and that the best of them is taken."""

import numpy as np
import pytest
import torch
from planted import batches, planted
from small_models import MODELS, batch_of, model_of

from headcount.trained.count import Samples, Study
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.effect import answer_of
from headcount.trained.importance import importance_of, sensitivities

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", [name for name in MODELS if name != "torch, tokens first"])
def test_every_head_of_every_family_has_a_score(name):
    model = prepared(model_of(name))
    blocks = attention_blocks(model)
    scores = [importance_of(each.gates) for each in sensitivities(model, blocks, [batch_of(name)])]
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
    found = importance_of(sensitivities(model, blocks, [batch])[1].gates)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_metric_of_a_layer_is_that_of_derivatives_by_what_it_writes():
    """By differences: of a number that is added to what the last layer writes at one token."""
    model, batch = prepared(model_of("distilbert")), batch_of("distilbert", samples=1)
    del batch["attention_mask"]
    block = attention_blocks(model)[-1]
    direction = torch.randn(16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows, step = [], 1e-6
    for token in range(batch["input_ids"].shape[1]):
        row = []
        for number in range(block.width):
            goals = []
            for sign in (1, -1):

                def moved(_, __, made, at=(0, token, number), by=sign * step):
                    made = made.clone()
                    made[at] += by
                    return made

                hook = block.output.register_forward_hook(moved)
                with torch.no_grad():
                    values = answer_of(model(**batch), batch).values
                hook.remove()
                goals.append(float((torch.nn.functional.normalize(values, dim=-1) @ direction).sum()))
            row.append((goals[0] - goals[1]) / (2 * step))
        rows.append(row)
    wanted = np.array(rows).T @ np.array(rows) * len(rows)
    found = sensitivities(model, attention_blocks(model), [batch])[-1].metric
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


def test_a_model_without_gradients_has_no_scores():
    class Rounded(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, **inputs):
            return self.model(**inputs).last_hidden_state.detach()

    model = prepared(Rounded(model_of("distilbert")))
    assert sensitivities(model, attention_blocks(model), [batch_of("distilbert")]) is None


def test_the_way_that_changes_the_model_least_is_taken():
    study = Study(prepared(planted()[1]), Samples.of(batches(6), seed=0), tolerance=1e-3)
    effects = study.way_effects
    assert set(effects) == {
        "elimination",
        "cautious elimination",
        "elimination by effect",
        "gradient",
        "mixture",
    }
    assert effects[study.way] == min(effects.values()) < 1e-6 < effects["gradient"]
