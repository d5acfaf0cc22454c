"""Batches of every kind: read, split and handed to a model."""

import numpy as np
import pytest
import torch
from small_models import WIDTH, batch_of, model_of

from headcount.errors import InvalidInput
from headcount.trained.batches import called, collected, part_of, real_tokens, size_of, split

pytestmark = pytest.mark.torch

X = torch.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    "batch",
    [X, (X, X[:, 0]), {"x": X, "words": list("abcdef"), "scale": 2.0}, ((X, X), X), X.numpy()],
    ids=["tensor", "tuple", "dict", "nested", "array"],
)
def test_a_part_has_the_samples_that_were_asked_for(batch):
    (batch,) = collected([batch])
    part = part_of(batch, [4, 1])
    assert size_of(part) == 2
    first = part
    while not isinstance(first, torch.Tensor):
        first = first["x"] if isinstance(first, dict) else first[0]
    assert torch.equal(first, X[[4, 1]])


def test_a_split_has_every_sample_once_and_its_shares():
    batches = collected([X, X[:3] + 12, X[:1] + 18])
    parts = split(batches, (5, 3, 2), seed=3)
    assert [sum(map(size_of, part)) for part in parts] == [5, 3, 2]
    firsts = torch.cat([batch[:, 0] for part in parts for batch in part])
    assert sorted(firsts.tolist()) == [float(2 * place) for place in range(10)]


def test_a_split_depends_on_the_seed_alone():
    one, two, other = (split([X], (1, 1), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one[0][0], two[0][0]) and not torch.equal(one[0][0], other[0][0])


@pytest.mark.parametrize(
    "given, said",
    [
        ([], "batches: expected samples, got none"),
        ([X[:0]], "batches: expected samples, got none"),
        (X, "batches: expected a list or a loader of batches, got 'Tensor'"),
        ([X, X * torch.nan], "batches: batch 1: expected finite numbers"),
        ([(X, X[:2])], "batches: batch 0: expected tensors with one sample for each place .* got .2, 6."),
        (["text"], "batches: batch 0: expected tensors with one sample for each place"),
        (3, "batches: expected a list or a loader of batches, got 'int'"),
    ],
)
def test_what_cannot_be_used_is_one_line(given, said):
    with pytest.raises(InvalidInput, match=said) as refusal:
        collected(given)
    assert "\n" not in str(refusal.value)


def test_labels_do_not_go_into_the_model():
    model, batch = model_of("bert"), batch_of("bert")
    found = called(model, {**batch, "labels": torch.zeros(3, dtype=torch.long), "something": X})
    assert found.loss is None and len(found.logits) == 3


def test_of_a_tuple_the_first_part_goes_into_the_model():
    x = torch.zeros(2, 4, WIDTH, dtype=torch.float64)
    model, padding = model_of("torch"), torch.tensor([[False] * 4, [False] * 3 + [True]])
    alone = called(model, (x, torch.zeros(2)))
    assert torch.equal(alone, model(x))
    with_padding = called(model, ((x, padding), torch.zeros(2)))
    torch.testing.assert_close(with_padding[:, :3], model(x, padding)[:, :3])


def test_padding_is_found_in_masks_of_either_sense():
    mask = np.array([[True, True, False]])
    for batch in (
        {"attention_mask": torch.from_numpy(mask).long()},
        {"padding": torch.from_numpy(~mask)},
        ({"src_key_padding_mask": torch.from_numpy(~mask)}, X),
    ):
        assert np.array_equal(real_tokens(batch, 1, 3), mask)
        assert real_tokens(batch, 1, 4).all()


def test_a_decoder_has_a_mask_of_its_own():
    encoder, decoder = torch.tensor([[1, 0, 1]]), torch.tensor([[1, 1, 0]])
    batch = {"attention_mask": encoder, "decoder_attention_mask": decoder, "decoder_input_ids": decoder}
    assert real_tokens(batch, 1, 3, decoder=True).tolist() == [[True, True, False]]
    assert real_tokens(batch, 1, 3).tolist() == [[True, False, True]]
    del batch["decoder_attention_mask"]
    assert real_tokens(batch, 1, 3, decoder=True).all()
