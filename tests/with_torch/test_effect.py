"""The loss of a changed model beside that of the whole one."""

import numpy as np
import pytest
import torch
from small_models import MODELS, batch_of, model_of
from torch import nn
from torch.nn import functional

from headcount.errors import InvalidInput
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.effect import Measure, answer_of, distance

pytestmark = pytest.mark.torch

KINDS = {"distilbert": "cosine distance", "bart": "cosine distance"}


def changed_of(name):
    model = prepared(model_of(name))
    for block in attention_blocks(model):
        block.set_output(block.output_weight() * 0.3, block.output_bias())
    return model


@pytest.mark.parametrize("name", [name for name in MODELS if name != "torch, tokens first"])
def test_the_whole_model_is_at_no_distance_and_a_changed_one_is(name):
    model, batches = prepared(model_of(name)), [batch_of(name), batch_of(name, seed=2, tokens=9)]
    measure = Measure.of(model, batches)
    assert measure.kind == KINDS.get(name, "KL divergence")
    np.testing.assert_allclose(measure.rises(model), 0, atol=1e-12)
    rises = measure.rises(changed_of(name))
    assert rises.shape == (6,) and (rises > 0).all()


@pytest.mark.parametrize("name", ["bert", "gpt2", "distilbert"])
def test_padding_does_not_count(name):
    batch = batch_of(name)
    longer = {
        key: functional.pad(value, (0, 3), value=5 if key == "input_ids" else 0)
        for key, value in batch.items()
    }
    model, other = prepared(model_of(name)), changed_of(name)
    short, long = (Measure.of(model, [each]).rises(other) for each in (batch, longer))
    np.testing.assert_allclose(short, long, atol=1e-10)


def test_kl_divergence_is_that_of_the_distributions():
    one, other = torch.tensor([[0.0, 1.0]]), torch.tensor([[2.0, 0.5]])
    p, q = torch.softmax(one.double(), -1), torch.softmax(other.double(), -1)
    wanted = float((p * (p / q).log()).sum())
    found = distance("KL divergence", one[:, None], other[:, None])
    assert float(found) == pytest.approx(wanted)


def test_a_loss_of_ones_own_is_of_every_sample():
    model, batch = prepared(model_of("bert")), {**batch_of("bert"), "labels": torch.tensor([1, 0, 4])}

    def loss(outputs, batch):
        return functional.cross_entropy(outputs.logits, batch["labels"], reduction="none")

    measure = Measure.of(model, [batch], loss=loss)
    assert measure.kind == "loss" and measure.whole.shape == (3,)
    changed = changed_of("bert")
    np.testing.assert_allclose(measure.rises(changed), measure.losses(changed) - measure.whole)


def test_a_metric_is_better_where_it_is_higher():
    model, batch = prepared(model_of("timm")), (batch_of("timm")[0], torch.tensor([1, 0, 4]))

    def right(outputs, batch):
        return (outputs.argmax(-1) == batch[1]).double()

    measure = Measure.of(model, [batch], metric=right)
    with torch.no_grad():
        assert measure.losses(model).tolist() == (-right(model(batch[0]), batch)).tolist()


def test_one_number_a_sample_is_measured_in_squares():
    model = nn.Sequential(model_of("torch"), nn.Flatten(), nn.Linear(35, 1).double()).eval()
    measure = Measure.of(prepared(model), [batch_of("torch", tokens=7)[0]])
    assert measure.kind == "squared distance"
    whole, changed = torch.tensor([[[1.0]]]), torch.tensor([[[3.0]]])
    assert float(distance("squared distance", whole, changed)) == 4.0


def test_vectors_of_length_one_are_embeddings():
    vectors = functional.normalize(torch.randn(4, 8), dim=-1)
    assert not answer_of(vectors, vectors).logits and answer_of(2 * vectors, vectors).logits


@pytest.mark.parametrize(
    "own, said",
    [
        (
            lambda outputs, batch: outputs.logits.mean(),
            "expected one number for each of the 3 .* a single number",
        ),
        (lambda outputs, batch: outputs.logits, "got the shape .3, 5."),
        (lambda outputs, batch: outputs.logits[:, 0] * torch.nan, "loss: expected finite numbers"),
    ],
)
def test_a_loss_that_cannot_be_used_is_one_line(own, said):
    with pytest.raises(InvalidInput, match=said):
        Measure.of(prepared(model_of("bert")), [batch_of("bert")], loss=own)


def test_a_loss_or_a_metric():
    with pytest.raises(InvalidInput, match="expected a loss or a metric, got both"):
        Measure.of(prepared(model_of("bert")), [batch_of("bert")], loss=len, metric=len)


def test_a_distance_that_is_not_known():
    with pytest.raises(InvalidInput, match="distance: expected one of KL divergence, cosine distance"):
        Measure.of(prepared(model_of("bert")), [batch_of("bert")], kind="euclidean")
