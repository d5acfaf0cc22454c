"""Mini-batches: every sample once an epoch, whatever batches it came in."""

from itertools import islice

import pytest
import torch
from small_models import batch_of, model_of

from headcount.trained.batches import called, part_of, size_of
from headcount.trained.discovery import prepared
from headcount.trained.mixing import mixed

pytestmark = pytest.mark.torch


def epoch(batches, size):
    found, draws = [], mixed(batches, size, seed=3)
    while sum(map(size_of, found)) < sum(map(size_of, batches)):
        found.append(next(draws))
    return found


@pytest.mark.parametrize("size", [1, 3, 4, 100])
def test_an_epoch_has_every_sample_once(size):
    batches = [
        (torch.arange(5.0)[:, None], torch.arange(5)),
        (torch.arange(5.0, 9)[:, None], torch.arange(5, 9)),
    ]
    found = epoch(batches, size)
    assert max(map(size_of, found)) <= size
    assert sorted(torch.cat([y for _, y in found]).tolist()) == list(range(9))
    assert all(torch.equal(x[:, 0], y.float()) for x, y in found)


def test_samples_of_different_batches_meet():
    found = epoch([torch.zeros(20, 1), torch.ones(20, 1)], 10)
    assert any(0 < float(batch.sum()) < size_of(batch) for batch in found)


def test_shapes_that_differ_never_meet():
    found = epoch([torch.zeros(5, 2), torch.zeros(5, 3), torch.zeros(5, 2)], 4)
    assert sorted(map(size_of, found)) == [1, 2, 4, 4, 4]


def test_the_seed_decides():
    given = [torch.arange(30.0)[:, None]]
    one, two, other = (torch.cat(list(islice(mixed(given, 7, seed=seed), 9))) for seed in (0, 0, 1))
    assert torch.equal(one, two) and not torch.equal(one, other)


@pytest.mark.parametrize("name", ["bert", "qwen2"])
def test_texts_of_different_lengths_give_what_they_gave_alone(name):
    batches = [
        {**batch_of(name, samples=4, tokens=tokens, seed=tokens), "text": [f"{tokens} {n}" for n in range(4)]}
        for tokens in (5, 9)
    ]
    model, alone = prepared(model_of(name)), {}
    for batch in batches:
        for place in range(4):
            one = part_of(batch, [place])
            length = int(one["attention_mask"].sum())
            alone[one["text"][0]] = called(model, one).logits[0], length
    seen = set()
    for batch in epoch(batches, 3):
        assert batch["attention_mask"].any(dim=0)[-1]  # nothing but padding is cut off
        logits = called(model, batch).logits
        for text, own in zip(batch["text"], logits, strict=True):
            wanted, length = alone[text]
            if name == "qwen2":
                own, wanted = own[:length], wanted[:length]
            torch.testing.assert_close(own, wanted)
            seen.add(text)
    assert seen == set(alone)
