"""Models and samples as the command line names them, and every way in which they can be wrong."""

import json

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from small_models import MODELS, batch_of, model_of, outputs_of

from headcount.errors import InvalidInput
from headcount.trained.batches import collected, size_of
from headcount.trained.discovery import prepared
from headcount.trained.source import load_batches, load_model, on_device, own_function

pytestmark = pytest.mark.torch

CODE = """
import torch
def model():
    return torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 2)
def batches():
    for _ in range(3):
        yield torch.zeros(4, 5, 8)
def raises():
    raise KeyError("two\\nlines")
def later():
    yield torch.zeros(4, 5, 8)
    raise ValueError("later")
def number():
    return 3
three = 3
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(CODE)
    return str(tmp_path / "mine.py")


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "bert"
    transformers.BertForSequenceClassification(transformers.BertConfig(**small_config())).save_pretrained(
        path
    )
    words = {word: place for place, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "c"])}
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=model, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(path)
    return path


def small_config():
    return {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "num_hidden_layers": 2,
        "intermediate_size": 8,
        "vocab_size": 10,
        "max_position_embeddings": 16,
    }


def written(path, lines):
    path.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2", "qwen2", "vit", "t5"])
def test_a_saved_model_comes_back_with_its_head(name, tmp_path):
    model = model_of(name).float()
    model.save_pretrained(tmp_path)
    loaded = load_model(str(tmp_path))
    assert type(loaded) is type(model)
    batch = {
        key: value.float() if value.is_floating_point() else value for key, value in batch_of(name).items()
    }
    torch.testing.assert_close(outputs_of(loaded.eval(), batch), outputs_of(model, batch))


def test_texts_become_padded_batches_with_labels(folder, tmp_path):
    path = written(tmp_path / "texts.jsonl", [{"text": "a b c", "label": 1}, {"text": "b", "label": 0}] * 20)
    batches = collected(load_batches(path, model=str(folder), kind=torch.float32))
    assert [size_of(batch) for batch in batches] == [32, 8]
    first, second = batches
    assert first["input_ids"][18:22].tolist() == [[4, 5, 6], [4, 5, 6], [5, 0, 0], [5, 0, 0]]
    assert first["attention_mask"][19:21].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert first["labels"][19:21].tolist() == [1, 0]
    assert second["input_ids"].tolist() == [[5]] * 8, "texts of like lengths together: little is padded"


def test_token_ids_are_shown_as_texts_where_there_is_a_tokenizer(folder, mine, tmp_path):
    path = tmp_path / "ids.npz"
    np.savez(path, input_ids=np.array([[4, 5, 0], [6, 4, 5]]))
    (batch,) = load_batches(str(path), model=str(folder), kind=torch.float32)
    assert batch["text"] == ["a b", "c a b"]
    (batch,) = load_batches(str(path), model=f"{mine}:model", kind=torch.float32)
    assert "text" not in batch


def test_a_tokenizer_that_cannot_be_read_only_costs_the_texts(folder, tmp_path):
    (folder / "tokenizer.json").write_text("{")
    np.savez(tmp_path / "ids.npz", input_ids=np.array([[4, 5, 0]]))
    (batch,) = load_batches(str(tmp_path / "ids.npz"), model=str(folder), kind=torch.float32)
    assert batch.keys() == {"input_ids"}


def test_plain_texts_are_enough(folder, tmp_path):
    path = written(tmp_path / "texts.jsonl", ["a b", "c"])
    (batch,) = load_batches(path, model=str(folder), kind=torch.float32)
    assert batch["input_ids"].tolist() == [[4, 5], [6, 0]] and "labels" not in batch
    assert batch["text"] == ["a b", "c"]


def test_arrays_become_named_inputs_or_x_with_its_y(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, pixel_values=np.zeros((40, 3, 2)), labels=np.arange(40))
    first, second = load_batches(str(path), model="m", kind=torch.float16)
    assert first["pixel_values"].dtype == torch.float16 and second["labels"].tolist() == list(range(32, 40))
    np.savez(path, x=np.zeros((5, 2)), y=np.arange(5, dtype=np.int32), mask=np.ones(5, bool))
    ((x, y, mask),) = load_batches(str(path), model="m", kind=torch.float32)
    assert x.dtype == torch.float32 and y.dtype == torch.int64 and mask.dtype == torch.bool


def test_functions_of_ones_own(mine):
    assert len(list(prepared(load_model(f"{mine}:model")).modules())) > 5
    assert len(list(load_batches(f"{mine}:batches", model="m", kind=torch.float32))) == 3


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("{mine}", "expected FILE.py:function"),
        ("{mine}:", "expected FILE.py:function"),
        ("{mine}:nothing", "expected a function nothing, got none"),
        ("{mine}:three", "expected a function three, got none"),
        ("{mine}:number", "expected a torch.nn.Module to be returned, got 'int'"),
        ("{mine}:raises", "KeyError: 'two\\nlines'"),
        ("{tmp}/none.py:model", "no such file"),
        ("{tmp}/broken.py:model", "SyntaxError"),
        ("{tmp}/none", "no such folder"),
        ("{tmp}", "expected a folder with a config.json, got none"),
        ("{tmp}/broken.py", "expected FILE.py:function"),
        ("{tmp}/a.txt", "expected a folder or FILE.py:function, got a file"),
        ("{tmp}/list", "config.json: expected an object"),
        ("{tmp}/damaged", "config.json cannot be read"),
        ("{tmp}/quantised", "expected floating-point weights, got a quantised model"),
        ("{tmp}/pruned", "heads were removed from this model before; give the whole one"),
        ("{tmp}/empty", "MODEL: "),
    ],
)
def test_a_model_that_cannot_be_had_is_one_line(reference, said, mine, tmp_path):
    (tmp_path / "broken.py").write_text("def model(:")
    (tmp_path / "a.txt").write_text("")
    configs = {
        "list": "[]",
        "damaged": "{",
        "quantised": '{"quantization_config": {"bits": 4}}',
        "pruned": '{"pruned_heads": {"0": [1]}, "model_type": "bert"}',
        "empty": '{"model_type": "bert"}',
    }
    for name, config in configs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
    with pytest.raises(InvalidInput) as refusal:
        load_model(reference.format(mine=mine, tmp=tmp_path))
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("{tmp}/none.npz", "no such file"),
        ("{tmp}", "expected a file"),
        ("{tmp}/mine.csv", "expected .npz, .jsonl or FILE.py:function, got '.csv'"),
        ("{tmp}/bad.npz", "expected an .npz as numpy.savez writes it"),
        ("{tmp}/uneven.npz", "expected arrays with a row for every sample"),
        ("{tmp}/texts.npz", "texts: expected numbers"),
        ("{tmp}/none_in_it.npz", "expected samples, got none"),
        ("{tmp}/empty.jsonl", "expected samples, got none"),
        ("{tmp}/bad.jsonl", "line 2: expected JSON"),
        ("{tmp}/other.jsonl", 'line 1: expected a text, or an object with "text"'),
        ("{tmp}/half.jsonl", "expected a label on every line or on none, got 1"),
        ("{mine}:raises", "KeyError"),
        ("{mine}:later", "ValueError: later"),
    ],
)
def test_data_that_cannot_be_had_is_one_line(reference, said, mine, folder, tmp_path):
    for name, text in {
        "mine.csv": "",
        "bad.npz": "text",
        "empty.jsonl": "\n",
        "bad.jsonl": '"a"\n{',
        "other.jsonl": "3",
        "half.jsonl": '"a"\n{"text": "b", "label": 1}',
    }.items():
        (tmp_path / name).write_text(text)
    np.savez(tmp_path / "uneven.npz", a=np.zeros(3), b=np.zeros(4))
    np.savez(tmp_path / "texts.npz", texts=np.array(["a", "b"]))
    np.savez(tmp_path / "none_in_it.npz")
    with pytest.raises(InvalidInput) as refusal:
        load_batches(reference.format(mine=mine, tmp=tmp_path), model=str(folder), kind=torch.float32)
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


def test_texts_for_a_model_without_a_tokenizer(mine, tmp_path):
    path = written(tmp_path / "texts.jsonl", ["a"])
    with pytest.raises(InvalidInput, match="texts need the tokenizer of a model folder"):
        load_batches(path, model=f"{mine}:model", kind=torch.float32)
    model_of("bert").save_pretrained(tmp_path / "bare")
    with pytest.raises(InvalidInput, match="tokenizer"):
        load_batches(path, model=str(tmp_path / "bare"), kind=torch.float32)


def test_a_device_that_is_not_there():
    with pytest.raises(InvalidInput, match="--device: nowhere"):
        on_device(MODELS["torch"](), "nowhere")


def test_a_metric_is_a_function_in_a_file(mine):
    assert own_function("--metric", f"{mine}:number")() == 3
