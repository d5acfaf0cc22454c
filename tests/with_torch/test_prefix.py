"""What a model does before a layer, kept: the same outputs from fewer modules."""

import pytest
import torch
from small_models import MODELS, batch_of, model_of, outputs_of

from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.fitting import cut
from headcount.trained.prefix import Prefix, Prefixes, resumes

pytestmark = pytest.mark.torch

FAMILIES = pytest.mark.parametrize("name", [name for name in MODELS if name != "torch, tokens first"])


def calls_of(model, run):
    """How many modules without others in them were called, and what came out."""
    calls = []
    hooks = [
        each.register_forward_pre_hook(lambda *_: calls.append(0))
        for each in model.modules()
        if not list(each.children())
    ]
    outputs = run()
    for hook in hooks:
        hook.remove()
    return len(calls), outputs


@FAMILIES
def test_a_model_changed_from_a_layer_on_goes_on_from_what_is_kept(name):
    whole = prepared(model_of(name))
    blocks = attention_blocks(whole)
    batches = [batch_of(name, seed=seed) for seed in (1, 2)]
    last = len(blocks) - 1
    kept = [range(block.heads) for block in blocks[:-1]] + [[0, 3]]
    model, found = cut(whole, kept), Prefixes(whole, blocks).of(last, batches)
    assert found is not None
    for number, batch in enumerate(batches):
        every, wanted = calls_of(model, lambda batch=batch: outputs_of(model, batch))
        with found.given(model, number):
            some, outputs = calls_of(model, lambda batch=batch: outputs_of(model, batch))
        assert torch.equal(outputs, wanted) and some < 0.7 * every
        assert torch.equal(outputs_of(model, batch), wanted)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim = 4
        for name in ("query", "key", "value", "output"):
            setattr(self, name, torch.nn.Linear(8, 8))

    def forward(self, x):
        return self.output(torch.tanh(self.query(x) + self.key(x) * self.value(x)))


class Changing(torch.nn.Module):
    """What its first module puts out is changed in place: before the second layer, or after it."""

    def __init__(self, *, late):
        super().__init__()
        self.first, self.second, self.late = torch.nn.Linear(8, 8), Layer(), late

    def forward(self, x):
        kept = self.first(x)
        if not self.late:
            kept += 1
        made = self.second(kept)
        kept += made
        return kept.sum(dim=1)


@pytest.mark.parametrize("late", [False, True])
def test_what_is_changed_in_place_is_not_given_again(late):
    from headcount.trained.attention import AttentionBlock
    from headcount.trained.families.separate import SEPARATE

    model, batch = Changing(late=late), torch.randn(3, 5, 8)
    parts = (model.second.query, model.second.key, model.second.value)
    block = AttentionBlock("second", SEPARATE[0], model.second, parts, model.second.output)
    found = Prefix(model, block, [batch])
    wanted = model(batch)
    for _ in range(3):
        with torch.no_grad(), found.given(model, 0):
            assert torch.equal(model(batch), wanted)
    assert resumes(model, block, batch) is late


def test_no_more_is_kept_than_fits(monkeypatch):
    monkeypatch.setattr("headcount.trained.prefix.MAX_NUMBERS", 10)
    whole, batch = prepared(model_of("bert")), batch_of("bert")
    assert Prefix(whole, attention_blocks(whole)[-1], [batch]).outputs == [{}]
