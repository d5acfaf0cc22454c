"""Encoders beside decoders, inspected from texts alone."""

import json

import pytest
import tokenizers
import torch
import transformers
from small_models import batch_of, model_of

from headcount.trained.batches import collected
from headcount.trained.decoding import with_decoder_inputs
from headcount.trained.discovery import prepared
from headcount.trained.source import load_batches, load_model

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("t5")
    torch.manual_seed(0)
    model = model_of("t5").float()
    model.config.decoder_start_token_id = model.generation_config.decoder_start_token_id = 0
    model.save_pretrained(path)
    words = {word: place for place, word in enumerate(["<pad>", "</s>", "<unk>", *"abcdefghijkl"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(path)
    return path


def texts(count):
    generator = torch.Generator().manual_seed(0)
    for _ in range(count):
        length = int(torch.randint(2, 7, (), generator=generator))
        yield " ".join("abcdefghijkl"[int(p)] for p in torch.randint(12, (length,), generator=generator))


def written(path, lines):
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def test_a_t5_is_inspected_and_shrunk_from_texts_alone(folder, tmp_path, called):
    data = written(tmp_path / "texts.jsonl", texts(60))
    options = ["--tolerance", 10, "--timing", 0]
    assert called("inspect", folder, data, "--out", tmp_path / "found", *options) == 0
    assert called("shrink", tmp_path / "found", "--out", tmp_path / "small", "--data", data) == 0
    content = json.loads((tmp_path / "found" / "plan.json").read_text())
    assert {each["name"].partition(".")[0] for each in content["layers"]} == {"encoder", "decoder"}


def test_without_targets_the_decoder_is_given_what_the_model_writes(folder, tmp_path):
    model = prepared(load_model(str(folder)))
    data = written(tmp_path / "texts.jsonl", texts(5))
    (batch,) = with_decoder_inputs(
        model, collected(load_batches(str(data), model=str(folder), kind=torch.float32))
    )
    ids, real = batch["decoder_input_ids"], batch["decoder_attention_mask"].bool()
    with torch.no_grad():
        inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "decoder_input_ids")}
        likely = model(**inputs).logits[:, :-1].argmax(-1)
    after = real[:, 1:]
    assert (ids[:, 0] == model.config.decoder_start_token_id).all()
    assert torch.equal(likely[after], ids[:, 1:][after]), (
        "each word is the most likely one after those before"
    )


def test_targets_that_are_texts_are_what_the_decoder_is_given(folder, tmp_path):
    lines = [{"text": "a b c", "target": "d e"}, {"text": "a b", "target": "f"}]
    data = written(tmp_path / "texts.jsonl", lines)
    model = prepared(load_model(str(folder)))
    (batch,) = with_decoder_inputs(
        model, collected(load_batches(str(data), model=str(folder), kind=torch.float32))
    )
    assert batch["labels"].tolist() == [[6, 7], [8, -100]]
    assert batch["decoder_input_ids"].tolist() == [[0, 6], [0, 8]]
    assert batch["decoder_attention_mask"].tolist() == [[1, 1], [1, 0]]


def test_an_end_that_is_also_the_start_ends_nothing_at_once():
    config = transformers.BartConfig(
        d_model=16, vocab_size=40, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=8, decoder_ffn_dim=8,
        encoder_attention_heads=2, decoder_attention_heads=2, max_position_embeddings=64, pad_token_id=1,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BartForConditionalGeneration(config).eval()
    (batch,) = with_decoder_inputs(model, [{"input_ids": torch.randint(3, 40, (3, 5))}])
    assert batch["decoder_attention_mask"][:, :2].all()


def test_batches_that_say_it_and_other_models_are_left_alone():
    for name in ("t5", "bert"):
        batch = batch_of(name)
        assert with_decoder_inputs(model_of(name), [batch])[0] is batch
