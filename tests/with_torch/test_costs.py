"""What models cost, against arithmetic by hand."""

import copy
import json
from functools import partial
from itertools import count

import pytest
import torch
from small_models import HEADS, LAYERS, MODELS, NUMBERS, VOCABULARY, WIDTH, Encoder, batch_of, model_of
from torch import nn

from headcount.errors import InvalidInput
from headcount.theory.plan import costs as costs_of_shape
from headcount.theory.shape import Shape
from headcount.trained.arithmetic import saved_at_most
from headcount.trained.causality import causal_layers
from headcount.trained.costs import Costs, costs_of
from headcount.trained.discovery import attention_blocks, prepared
from headcount.trained.gains import COLUMNS, Gains, gains
from headcount.trained.latency import Latency

pytestmark = pytest.mark.torch

FEEDFORWARD, LABELS, HEAD_DIM, KV_HEADS = 24, 5, WIDTH // HEADS, 2
CACHED = {  # layers × 2 × key-value heads × head_dim
    "gpt2": LAYERS * 2 * HEADS * HEAD_DIM,
    "llama": LAYERS * 2 * KV_HEADS * HEAD_DIM,
    "mistral": LAYERS * 2 * KV_HEADS * HEAD_DIM,
    "qwen2": LAYERS * 2 * KV_HEADS * HEAD_DIM,
    "qwen3": LAYERS * 2 * KV_HEADS * 6,
    "t5": LAYERS * 2 * HEADS * 6,  # of the decoder's own tokens
    "bart": 2 * 2 * HEADS * HEAD_DIM,
    "torch decoder": LAYERS * 2 * HEADS * HEAD_DIM,
}
TICK = 1e-3


def ticking():
    """A clock that is a millisecond later whenever it is read."""
    return partial(next, count(0.0, TICK))


def with_heads(name, kept):
    model = prepared(model_of(name))
    for block in attention_blocks(model):
        block.keep(kept)
    return model


@pytest.mark.parametrize("tokens", [3, 7, 12])
def test_a_bert_costs_what_arithmetic_says(tokens):
    found = costs_of(model_of("bert"), batch_of("bert", tokens=tokens))
    attention = LAYERS * (tokens * 4 * WIDTH**2 + 2 * tokens**2 * WIDTH)
    feedforward = LAYERS * tokens * 2 * WIDTH * FEEDFORWARD
    classifier = WIDTH**2 + WIDTH * LABELS  # of the first token alone
    assert found.attention_multiply_adds == attention
    assert found.multiply_adds == attention + feedforward + classifier
    assert found.tokens == tokens


@pytest.mark.parametrize("tokens", [3, 7, 12])
def test_a_llama_costs_what_arithmetic_says(tokens):
    found = costs_of(model_of("llama"), batch_of("llama", tokens=tokens))
    grouped = 2 * WIDTH * KV_HEADS * HEAD_DIM
    attention = LAYERS * (tokens * (2 * WIDTH**2 + grouped) + 2 * tokens**2 * WIDTH)
    feedforward = LAYERS * tokens * 3 * WIDTH * FEEDFORWARD
    assert found.attention_multiply_adds == attention
    assert found.multiply_adds == attention + feedforward + tokens * WIDTH * VOCABULARY


def test_multiply_adds_are_of_one_sample_whatever_the_batch():
    one, many = (costs_of(model_of("vit"), batch_of("vit", samples=samples)) for samples in (1, 4))
    assert one == many


def test_weights_that_modules_share_count_once():
    model = model_of("gpt2")
    assert model.lm_head.weight is model.transformer.wte.weight
    table = VOCABULARY * WIDTH
    per_layer = 4 * WIDTH**2 + 4 * WIDTH + 8 * WIDTH**2 + 5 * WIDTH + 4 * WIDTH
    expected = table + 32 * WIDTH + LAYERS * per_layer + 2 * WIDTH
    assert costs_of(model, batch_of("gpt2")).parameters == expected


@pytest.mark.parametrize("kept", [[1, 3], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_heads_that_go_save_what_arithmetic_says(name, kept):
    batch = batch_of(name)
    before, after = (costs_of(model, batch) for model in (prepared(model_of(name)), with_heads(name, kept)))
    saved = before.multiply_adds - after.multiply_adds
    assert saved == before.attention_multiply_adds - after.attention_multiply_adds > 0
    assert 0 < before.attention_multiply_adds < before.multiply_adds


@pytest.mark.parametrize("name", NUMBERS)
def test_a_model_costs_what_its_prepared_copy_does(name):
    model, batch = model_of(name), batch_of(name)
    assert costs_of(model, batch) == costs_of(prepared(model), batch)


@pytest.mark.parametrize("name", MODELS)
def test_layers_that_look_back_alone_have_a_cache(name):
    assert costs_of(model_of(name), batch_of(name)).cache == CACHED.get(name, 0)


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
@pytest.mark.parametrize("padding", ["left", "right"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_padding_does_not_hide_where_layers_look(name, padding, kernel):
    model, batch = model_of(name).float(), batch_of(name, tokens=9)
    model.set_attn_implementation(kernel)
    batch["attention_mask"][:] = 1
    batch["attention_mask"][:, slice(5) if padding == "left" else slice(4, None)] = 0
    layers = causal_layers(model, attention_blocks(model), batch)
    assert layers == (name == "llama",) * LAYERS


def test_attention_to_other_tokens_has_no_cache_of_its_own():
    model, batch = model_of("bart"), batch_of("bart")
    batch["decoder_input_ids"] = batch["decoder_input_ids"][:, :4]
    assert causal_layers(model, attention_blocks(model), batch) == (False, False, True, False, True, False)
    assert costs_of(model, batch).cache == CACHED["bart"]


def test_a_single_token_is_no_reason_for_a_cache():
    model = model_of("llama")
    assert not any(causal_layers(model, attention_blocks(model), {"input_ids": torch.tensor([[4]])}))


@pytest.mark.parametrize("length, saved", [(128, 0.175), (2048, 0.27)])
def test_half_of_the_heads_of_a_standard_layer(length, saved):
    assert saved_at_most(heads=12, kept=6, width=768, length=length) == pytest.approx(saved, abs=1e-3)


@pytest.mark.parametrize("feedforward", [0, 24, 4096])
@pytest.mark.parametrize("length", [1, 100, 4096])
@pytest.mark.parametrize("kept, heads", [(1, 1), (1, 2), (3, 16), (16, 16)])
@pytest.mark.parametrize("head_dim", [1, 64])
def test_the_formula_agrees_with_the_costs_of_a_plan(head_dim, kept, heads, length, feedforward):
    width = heads * head_dim
    whole, fewer = (
        costs_of_shape(
            Shape(layers=1, heads=h, kv_heads=h, head_dim=head_dim), width=width, feedforward=feedforward
        )
        for h in (heads, kept)
    )
    before, after = (each.multiply_adds + length * each.multiply_adds_in_view for each in (whole, fewer))
    found = saved_at_most(heads=heads, kept=kept, width=width, length=length, feedforward=feedforward)
    assert found == pytest.approx(1 - after / before, abs=1e-12)


def test_the_formula_agrees_with_what_is_counted():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True)
    whole = prepared(nn.TransformerEncoder(layer, LAYERS).double())
    small = copy.deepcopy(whole)
    for block in attention_blocks(small):
        block.keep([0])
    before, after = (costs_of(model, batch_of("torch", tokens=20)).multiply_adds for model in (whole, small))
    found = saved_at_most(heads=HEADS, kept=1, width=WIDTH, length=20)
    assert found == pytest.approx(1 - after / before, abs=1e-12)


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"heads": 0}, "heads: expected an integer >= 1, got 0"),
        ({"kept": 13}, "kept: expected an integer from 1 to 12, got 13"),
        ({"length": 0.5}, "length: expected an integer >= 1, got 0.5"),
        ({"feedforward": -1}, "feedforward: expected an integer >= 0, got -1"),
    ],
)
def test_a_layer_that_cannot_be_is_one_line(wrong, said):
    with pytest.raises(InvalidInput) as refusal:
        saved_at_most(**{"heads": 12, "kept": 6, "width": 768, "length": 128, **wrong})
    assert str(refusal.value) == said


def state_of(model):
    hooks = [
        len(getattr(module, kind))
        for module in model.modules()
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    ]
    modes = [module.training for module in model.modules()]
    weights = {name: (id(each), each.clone()) for name, each in model.state_dict(keep_vars=True).items()}
    return hooks, modes, weights, torch.get_rng_state()


@pytest.mark.parametrize("name", ["bert", "llama", "t5", "torch", "torch decoder"])
def test_models_are_left_as_they_were(name):
    whole, small = prepared(model_of(name)), with_heads(name, [0, 2])
    whole.train()
    attention_blocks(whole)[0].attention.eval()
    before = [state_of(model) for model in (whole, small)]
    gains(whole, small, [batch_of(name)], sizes=(2,), seconds=TICK, clock=ticking())
    for model, (hooks, modes, weights, random) in zip((whole, small), before, strict=True):
        hooks_now, modes_now, weights_now, random_now = state_of(model)
        assert (hooks_now, modes_now) == (hooks, modes)
        assert torch.equal(random_now, random)
        for entry, (place, values) in weights.items():
            assert weights_now[entry][0] == place and torch.equal(weights_now[entry][1], values)


def test_gains_of_a_smaller_model():
    whole, small = model_of("llama"), with_heads("llama", [0, 1])
    found = gains(whole, small, [batch_of("llama")], sizes=(1, 4), seconds=10 * TICK, clock=ticking())
    assert found.before.multiply_adds - found.after.multiply_adds == round(
        found.allowed * found.before.multiply_adds
    )
    assert found.ratios()["cache"] == 0.5
    assert [(each.samples, each.verdict) for each in found.latencies] == [(1, "no gain"), (4, "no gain")]
    assert found.precision == "float64"
    written = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert written["ratios"]["multiply_adds"] == found.after.multiply_adds / found.before.multiply_adds
    assert [each["verdict"] for each in written["latencies"]] == ["no gain", "no gain"]


def test_a_table_says_what_was_won_and_what_was_not():
    found = Gains(
        Costs(parameters=2000, multiply_adds=1_000_000, attention_multiply_adds=300_000, tokens=9, cache=0),
        Costs(parameters=1900, multiply_adds=1_000_000, attention_multiply_adds=300_000, tokens=9, cache=0),
        (
            Latency(1, before=0.002, after=0.00201, low=0.98, high=1.04, rounds=50),
            Latency(8, before=0.02, after=0.015, low=0.74, high=0.77, rounds=50),
            Latency(64, before=0.1, after=0.11, low=1.08, high=1.12, rounds=50),
        ),
        device="CPU, 2 threads",
        precision="float32",
    )
    rows = found.rows()
    assert rows == [
        ("parameters", "2,000", "1,900", "0.95 (5% less)"),
        ("multiply-adds per sample", "1,000,000", "1,000,000", "no gain"),
        ("latency at batch 1", "2 ms", "2.01 ms", "no gain (0.98 to 1.04)"),
        ("latency at batch 8", "20 ms", "15 ms", "0.75 (0.74 to 0.77)"),
        ("latency at batch 64", "100 ms", "110 ms", "1.10 (1.08 to 1.12)"),
    ]
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert found.sentence == (
        "With 9 tokens, what was removed is 0.0% of the multiply-adds (all of attention: 30.0%). Measured: "
        "no gain at batch 1, 25% less time at batch 8, 10% more time at batch 64."
    )


@pytest.mark.parametrize(
    "change, said",
    [
        ({"sizes": (1, 0)}, "sizes: expected an integer >= 1, got 0"),
        ({"seconds": 0}, "seconds: expected a finite number > 0, got 0"),
        ({"batches": []}, "batches: expected samples, got none"),
        ({"small": nn.Linear(WIDTH, 2)}, "no attention found"),
        ({"small": Encoder().to("meta")}, "small: expected to be on cpu as the whole model is, got meta"),
    ],
)
def test_what_cannot_be_compared_is_one_line(change, said):
    batches = [batch_of("torch")]
    given = {"whole": model_of("torch"), "small": model_of("torch"), "batches": batches, "seconds": TICK}
    with pytest.raises(InvalidInput, match=said) as refusal:
        gains(**{**given, **change})
    assert "\n" not in str(refusal.value)
