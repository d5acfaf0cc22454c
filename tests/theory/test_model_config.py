"""Configs of Hugging Face models.

`model_configs.json` holds small ones as transformers 5.23 writes them, each with the class that was made from
it and `sum(p.numel() for p in model.parameters())`.
"""

import json
from pathlib import Path

import pytest

from headcount.errors import InvalidInput
from headcount.theory.capacity import capacity
from headcount.theory.model_config import model_config, read_model_config

KNOWN = json.loads(Path(__file__).with_name("model_configs.json").read_text("utf-8"))
BERT = {
    **{"model_type": "bert", "num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768},
    **{"intermediate_size": 3072, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2},
}
DECODERS = {"gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3"}


@pytest.mark.parametrize("name", KNOWN)
def test_parameters_are_those_that_transformers_counts(name):
    known = KNOWN[name]
    found = model_config(known["config"])
    assert (found.parameters, found.counted_as) == (known["parameters"], known["class"])
    assert found.decoder == (found.kind in DECODERS)


def test_parameters_of_models_that_everyone_knows():
    assert model_config(BERT).parameters == 109_482_240
    llama = {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096, "vocab_size": 32000}
    llama = {**llama, "model_type": "llama", "intermediate_size": 11008, "max_position_embeddings": 4096}
    assert model_config(llama).parameters == 6_738_415_616
    vit = {"num_hidden_layers": 12, "num_attention_heads": 12, "hidden_size": 768, "model_type": "vit"}
    assert model_config({**vit, "intermediate_size": 3072}).parameters == 86_389_248


@pytest.mark.parametrize("name", KNOWN)
def test_costs_of_layers_are_part_of_the_whole(name):
    found = model_config(KNOWN[name]["config"])
    sized = found.sized()
    raw = KNOWN[name]["config"]
    words = raw.get("vocab_size", 0) * found.width
    assert sized.costs.multiply_adds < found.parameters < 2 * sized.costs.multiply_adds + 3 * words
    assert sized.costs.cache == 2 * found.layers * found.kv_heads * found.head_dim


def test_a_model_reaches_what_its_shape_reaches_with_positions_and_feedforward():
    own = model_config(BERT).sized()
    sizes = {"layers": 12, "heads": 12, "head_dim": 64, "width": 768}
    assert own.reach == capacity(**sizes, positions=True, feedforward=True)
    assert own.trained_law == capacity(**sizes).law
    read_last = model_config(BERT).sized(decoder=True)
    causal = {"reading": "last token", "mask": "causal"}
    assert read_last.reach == capacity(**sizes, **causal, positions=True, feedforward=True)


def test_grouped_heads_their_size_and_the_window_are_read():
    qwen = model_config(KNOWN["qwen2"]["config"])
    assert (qwen.heads, qwen.kv_heads, qwen.head_dim, qwen.gated, qwen.window) == (14, 2, 4, True, None)
    assert model_config(KNOWN["qwen3"]["config"]).head_dim == 16
    assert model_config(KNOWN["mistral"]["config"]).window == 4096
    falcon = {"model_type": "falcon", "multi_query": True, "num_attention_heads": 8, "hidden_size": 64}
    assert model_config({**falcon, "num_hidden_layers": 2}).kv_heads == 1


def test_what_a_head_passes_on_is_the_size_of_its_values():
    latent = {"model_type": "deepseek_v3", "head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512}
    found = model_config({**BERT, **latent})
    assert (found.head_dim, found.latent, found.decoder) == (128, 512, True)


FULL, SLIDING = "full_attention", "sliding_attention"


@pytest.mark.parametrize(
    ("kind", "changes", "window", "layers"),
    [
        ("mistral", {"sliding_window": 64}, 64, 12),
        ("longformer", {"attention_window": 512}, 512, 12),
        ("longformer", {"attention_window": [32] * 11 + [64]}, 64, 12),
        ("modernbert", {"local_attention": 128, "global_attn_every_n_layers": 5}, 128, 9),
        ("modernbert", {"local_attention": 128, "layer_types": [FULL, SLIDING] * 6}, 128, 6),
        ("gemma3_text", {"sliding_window": 512, "sliding_window_pattern": 5}, 512, 10),
        ("gemma3_text", {"sliding_window": 512}, 512, 10),
        ("gemma3_text", {"sliding_window": 512, "layer_types": [SLIDING] * 9 + [FULL] * 3}, 512, 9),
        ("gemma2", {"sliding_window": 4096}, 4096, 6),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 8}, 64, 4),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": True, "max_window_layers": 12}, None, 0),
        ("qwen2", {"sliding_window": 64, "use_sliding_window": False}, None, 0),
        ("gpt_neo", {"attention_layers": ["global", "local"] * 6, "window_size": 32}, 32, 6),
        ("new", {"sliding_window": None}, None, 0),
    ],
)
def test_windows_are_told_with_the_layers_that_have_them(kind, changes, window, layers):
    found = model_config({**BERT, "model_type": kind, **changes})
    assert (found.window, found.window_layers) == (window, layers)


def test_of_an_encoder_with_a_decoder_the_encoder_is_described():
    found = model_config({**BERT, "is_encoder_decoder": True, "architectures": ["NewForCausalLM"]})
    assert found.encoder_alone and not found.decoder
    assert not model_config(BERT).encoder_alone


def test_an_unknown_kind_has_a_shape_but_no_count():
    found = model_config({**BERT, "model_type": "new"})
    assert found.parameters is None and found.counted_as is None and found.heads == 12
    assert not found.decoder and not found.reading_known and model_config(BERT).reading_known
    assert model_config({**BERT, "model_type": None}).kind == "unknown"
    assert model_config({**BERT, "architectures": ["NewForCausalLM"]}).decoder
    assert model_config({key: BERT[key] for key in BERT if key != "vocab_size"}).parameters is None


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"num_attention_heads": None}, "expected num_attention_heads (or n_head"),
        ({"num_attention_heads": 7}, "hidden_size: expected a multiple of num_attention_heads = 7, got 768"),
        ({"num_attention_heads": 0}, "num_attention_heads: expected an integer from 1"),
        ({"num_attention_heads": [12, 6]}, "num_attention_heads: expected an integer from 1"),
        ({"num_hidden_layers": "12"}, "num_hidden_layers: expected an integer from 1"),
        ({"num_key_value_heads": 5}, "num_key_value_heads: expected a divisor of the 12 heads, got 5"),
        ({"hidden_size": None, "text_config": {}}, "it has a text_config"),
        ({"sliding_window": True}, "sliding_window: expected an integer from 1 to 1000000000, got True"),
        ({"sliding_window": "64"}, "sliding_window: expected an integer from 1"),
        ({"attention_window": [64, 64]}, "attention_window: expected an integer or 12 of them"),
        ({"attention_window": [True] * 12}, "attention_window: expected an integer from 1"),
        ({"sliding_window": 64, "sliding_window_pattern": 0}, "sliding_window_pattern: expected an integer"),
        ({"sliding_window": 64, "layer_types": [FULL]}, "layer_types: expected a list of 12 names"),
    ],
)
def test_a_config_that_cannot_be_used_is_named_in_one_line(changes, fragment):
    with pytest.raises(InvalidInput) as refused:
        model_config({**BERT, **changes}, name="c.json")
    assert str(refused.value).startswith("c.json: ") and fragment in str(refused.value)


def test_a_config_is_read_from_its_file_or_its_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(BERT))
    assert read_model_config(tmp_path) == read_model_config(tmp_path / "config.json") == model_config(BERT)
