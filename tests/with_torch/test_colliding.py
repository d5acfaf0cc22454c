"""Pairs of samples that a model with too few heads no longer tells apart."""

import json
from itertools import product

import numpy as np
import pytest
import torch
from small_models import MODELS, batch_of, model_of
from torch import nn

import headcount as hc
from headcount.trained.batches import part_of
from headcount.trained.colliding import Answers, furthest_of_nearest
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.effect import Measure, distance
from headcount.trained.fitting import sharing_copy

pytestmark = pytest.mark.torch

BITS = 4


class Words(nn.Module):
    """Says which of four words are in a text; each head of its one layer looks for one of them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(torch.eye(BITS + 1).double())
        self.attention = nn.MultiheadAttention(BITS, BITS, kdim=BITS + 1, vdim=BITS + 1, batch_first=True)
        self.head = nn.Linear(BITS, 2 * BITS).double()
        identity = torch.eye(BITS, BITS + 1).double()
        self.attention.double()
        with torch.no_grad():
            self.attention.q_proj_weight.zero_()
            self.attention.in_proj_bias.zero_()[:BITS] = 5.0  # of every query, whatever is asked
            self.attention.k_proj_weight.copy_(identity)
            self.attention.v_proj_weight.copy_(identity)
            self.attention.out_proj.weight.copy_(identity[:, :BITS])
            self.attention.out_proj.bias.zero_()
            self.head.weight.copy_(torch.cat([6 * identity[:, :BITS], -6 * identity[:, :BITS]]))

    def forward(self, input_ids, text=None):
        inputs = self.embedding(input_ids)
        found = self.attention(inputs[:, :1, :BITS], inputs, inputs, need_weights=False)[0]
        return self.head(found[:, 0] - 0.5)


def texts():
    """Every set of words, four times, in batches with the texts beside the ids."""
    rows = [[bit + 1 if there else 0 for bit, there in enumerate(bits)] for bits in product([0, 1], repeat=4)]
    ids = torch.tensor([[(each - 1) % (BITS + 1) for each in row] + [BITS] for row in rows * 4])
    said = [" ".join("abcd"[each - 1] for each in row if each) or "nothing" for row in rows * 4]
    whole = {"input_ids": ids, "text": said}
    return [part_of(whole, range(start, start + 16)) for start in range(0, 64, 16)]


def cut(whole, layer, kept):
    small = sharing_copy(whole)
    attention_blocks(small)[layer].keep(kept)
    return small


def test_without_the_head_of_a_word_texts_with_and_without_it_look_alike():
    whole, given = prepared(Words()), texts()
    answers = Answers.of(whole, given, kind="KL divergence")
    said = [text for batch in given for text in batch["text"]]
    for missing in range(BITS):
        small = cut(whole, 0, [head for head in range(BITS) if head != missing])
        pair = furthest_of_nearest(Answers.of(small, given, kind="KL divergence"), answers)
        words = [set(said[each].replace("nothing", "").split()) for each in (pair.first, pair.second)]
        assert words[0] ^ words[1] == {"abcd"[missing]}
        assert pair.representation < 1e-6 and pair.output > 0.2


def test_a_layer_with_one_head_too_few_shows_two_texts():
    found = hc.inspect(Words(), texts(), tolerance=0.01)
    assert found.frame["needed"].tolist() == [BITS]
    (collision,) = found.to_json()["collisions"]
    assert collision["layer"] == "attention" and collision["heads"] == BITS - 1
    assert collision["representation"] < 0.1 * collision["output"]
    words = [set(collision[name].replace("nothing", "").split()) for name in ("first", "second")]
    assert words[0] != words[1] and words[0] | words[1] <= set("abcd")
    json.dumps(found.to_json(), allow_nan=False)


def test_no_collision_where_one_head_is_enough():
    whole = prepared(model_of("torch"))
    for block in attention_blocks(whole):
        block.set_output(0 * block.output_weight(), block.output_bias())
    given = [batch_of("torch", samples=16, seed=seed)[0] for seed in range(3)]
    found = hc.inspect(whole, given, tolerance=0.1)
    assert found.frame["needed"].tolist() == [1, 1, 1] and found.to_json()["collisions"] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert", "KL divergence"),
        ("gpt2", "KL divergence"),
        ("distilbert", "cosine distance"),
        ("torch", "squared distance"),
    ],
)
def test_all_distances_are_those_of_the_answers(name, kind):
    whole = prepared(model_of(name))
    given = [batch_of(name, samples=5, seed=seed) for seed in range(2)]
    found = Answers.of(whole, given, kind=kind)
    values = torch.cat(
        [each.reshape(5, -1, each.shape[-1]) for each in Measure.of(whole, given, kind=kind).answers]
    )
    wanted = [
        (distance(kind, values[[i]], values[[j]]) + distance(kind, values[[j]], values[[i]])).item() / 2
        for i in range(10)
        for j in range(i + 1, 10)
    ]
    np.testing.assert_allclose(found.pairs(), wanted, rtol=1e-9, atol=1e-12)


def test_the_pair_is_that_of_a_search_through_all():
    random = torch.Generator().manual_seed(0)
    cut, whole = (torch.randn(300, 3, generator=random, dtype=torch.float64) for _ in range(2))
    found = furthest_of_nearest(Answers(cut, cut), Answers(whole, whole), near=0.001)
    places = [(i, j) for i in range(300) for j in range(i + 1, 300)]
    gaps, outputs = (
        np.array([float(((each[i] - each[j]) ** 2).sum()) for i, j in places]) for each in (cut, whole)
    )
    nearest = np.argsort(gaps)[: round(0.001 * len(gaps))]
    best = max(nearest, key=lambda place: outputs[place])
    assert (found.first, found.second) == places[best]
    assert found.representation == pytest.approx(gaps[best] / np.median(gaps))
    assert found.output == pytest.approx(outputs[best] / np.median(outputs))


@pytest.mark.parametrize("samples", [1, 3])
def test_answers_without_a_spread_have_no_pair(samples):
    same = torch.ones(samples, 2, dtype=torch.float64)
    assert furthest_of_nearest(Answers(same, same), Answers(same, same)) is None


def test_texts_are_no_inputs():
    batch = {"input_ids": torch.zeros(2, 3, dtype=torch.int64), "text": ["a", "b"]}
    model = prepared(MODELS["bert"]())
    assert Answers.of(model, [batch], kind="KL divergence").one.shape == (2, 5)
