"""A model and its samples as the command line names them: files, folders, and functions of a user's own."""

import importlib.util
import json
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from headcount.errors import HeadcountError, InvalidInput
from headcount.extras import needed
from headcount.trained.batches import TEXT, Batch
from headcount.trained.decoding import IGNORED
from headcount.validation import expected, shown

Line = TypeVar("Line")

BATCH = 32
TEXTS, LABELS = ("text", "sentence", "passage"), ("label", "labels", "target")
# Without any of these transformers makes up a tokenizer that knows no words.
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.txt", "vocab.json", "spiece.model")
IDS = "input_ids"
POOLER = "pooler"  # often not saved, and read by nothing here
MAX_TOKENS = 512  # of a text, where the tokenizer names no limit


def own_function(name: str, reference: str) -> Callable[..., Any]:
    """The function that FILE.py:function names."""
    file, colon, function = reference.rpartition(":")
    if not colon or not file.endswith(".py") or not function.isidentifier():
        raise expected(name, "FILE.py:function", reference)
    path = Path(file)
    if not path.is_file():
        raise InvalidInput(f"{name}: {path}: no such file")
    name_of_module = path.stem if path.stem not in sys.modules else f"headcount_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name_of_module, path)
    assert spec is not None and spec.loader is not None, "a name that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    # As for a script: modules beside it can be imported, and it can be found by its name.
    sys.modules[name_of_module] = module
    if str(path.resolve().parent) not in sys.path:
        sys.path.append(str(path.resolve().parent))
    _called(f"{name}: {path}", spec.loader.exec_module, module)
    found = getattr(module, function, None)
    if not callable(found):
        raise InvalidInput(f"{name}: {path}: expected a function {function}, got none")
    return found


def _called(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call code of the user's own; an error in it is one line too."""
    try:
        return function(*arguments)
    except HeadcountError:
        raise
    except Exception as problem:
        raise InvalidInput(f"{name}: {type(problem).__name__}: {' '.join(str(problem).split())}") from problem


def is_function(reference: str) -> bool:
    """Whether a reference names a function in a file.

    >>> is_function("mine.py:model"), is_function("models/bert")
    (True, False)
    """
    return ".py:" in reference or reference.endswith(".py")


def load_model(reference: str) -> nn.Module:
    """The model in a folder that transformers saved, or that a function returns."""
    if is_function(reference):
        model = _called(f"MODEL: {reference}", own_function("MODEL", reference))
        if not isinstance(model, nn.Module):
            raise expected(f"MODEL: {reference}", "a torch.nn.Module to be returned", type(model).__name__)
        return model
    folder = Path(reference)
    config = _config(folder)
    if config.get("quantization_config"):
        raise InvalidInput(f"MODEL: {folder}: expected floating-point weights, got a quantised model")
    if _is_pruned(config.get("pruned_heads")):
        raise InvalidInput(f"MODEL: {folder}: heads were removed from this model before; give the whole one")
    transformers = needed("transformers", extra="transformers", purpose="a model in a folder")
    named = [getattr(transformers, str(name), None) for name in config.get("architectures") or ()]
    models = [each for each in named if isinstance(each, type) and issubclass(each, nn.Module)]
    return _called(f"MODEL: {folder}", _read, folder, next(iter(models), transformers.AutoModel))


def _is_pruned(heads: Any) -> bool:
    """Whether an older transformers removed heads: by layer, those that are gone."""
    return any(heads.values()) if isinstance(heads, dict) else bool(heads)


def _read(folder: Path, chosen: Any) -> nn.Module:
    """The model with all of its weights: transformers makes up those that are not there."""
    from headcount.trained.export.smaller import no_bars

    with no_bars():
        model, found = chosen.from_pretrained(folder, local_files_only=True, output_loading_info=True)
    missing = sorted(name for name in found["missing_keys"] if POOLER not in name)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidInput(f"MODEL: {folder}: expected all weights, got none for {missing[0]}{more}")
    return model


def _config(folder: Path) -> dict[str, Any]:
    if not folder.is_dir():
        problem = "expected a folder or FILE.py:function, got a file" if folder.exists() else "no such folder"
        raise InvalidInput(f"MODEL: {folder}: {problem}")
    try:
        config = json.loads((folder / "config.json").read_bytes())
    except FileNotFoundError:
        raise InvalidInput(f"MODEL: {folder}: expected a folder with a config.json, got none") from None
    except (OSError, ValueError) as problem:
        raise InvalidInput(f"MODEL: {folder}: config.json cannot be read: {problem}") from None
    if not isinstance(config, dict):
        raise expected(f"MODEL: {folder}: config.json", "an object", config)
    return config


def on_device(model: nn.Module, device: str | None) -> nn.Module:
    """The model where it is to run: on the first GPU, if there is one, unless a device is named."""
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        if torch.device(chosen).type == "meta":
            raise RuntimeError("expected a device that computes")
        return model.to(torch.device(chosen))
    except (RuntimeError, AssertionError) as problem:
        raise InvalidInput(f"--device: {chosen}: {' '.join(str(problem).split())}") from None


def load_batches(reference: str, *, model: str, kind: torch.dtype | None) -> Iterable[Batch]:
    """The batches in a file, or that a function returns; numbers are of the model's type."""
    if is_function(reference):
        found = _called(f"DATA: {reference}", own_function("DATA", reference))
        if isinstance(found, Iterable):
            # A generator runs its code only here.
            found = _with_texts(_called(f"DATA: {reference}", list, found), model)
        return found  # `collected` says what is wrong with anything else
    path = Path(reference)
    if not path.is_file():
        raise InvalidInput(f"DATA: {path}: {'expected a file' if path.exists() else 'no such file'}")
    if path.suffix == ".npz":
        return _with_texts(_arrays(path, kind), model)
    if path.suffix in (".jsonl", ".ndjson"):
        return _lines(path, model)
    raise expected(f"DATA: {path}", ".npz, .jsonl or FILE.py:function", path.suffix or "no extension")


def _with_texts(batches: list[Batch], model: str) -> list[Batch]:
    """With the texts of token ids beside them, where the model's folder has a tokenizer that reads them."""
    ids = [batch.get(IDS) if isinstance(batch, Mapping) and TEXT not in batch else None for batch in batches]
    if is_function(model) or not _has_tokenizer(model) or all(each is None for each in ids):
        return batches
    try:
        tokenizer = _tokenizer(Path(model), model)
        texts = [None if each is None else _called(model, _decoded, tokenizer, each) for each in ids]
    except HeadcountError:  # texts are only shown
        return batches
    return [
        batch if text is None else {**batch, TEXT: text} for batch, text in zip(batches, texts, strict=True)
    ]


def _decoded(tokenizer: Any, ids: Any) -> list[str]:
    return [tokenizer.decode(each, skip_special_tokens=True) for each in np.asarray(ids).tolist()]


def _arrays(path: Path, kind: torch.dtype | None) -> list[Batch]:
    if not zipfile.is_zipfile(path):
        raise InvalidInput(f"DATA: {path}: expected an .npz as numpy.savez writes it")
    arrays = _called(f"DATA: {path}", _read_arrays, path)
    if not arrays:
        raise InvalidInput(f"DATA: {path}: expected samples, got none")
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidInput(f"DATA: {path}: expected arrays with a row for every sample, got {shown(lengths)}")
    tensors = {name: _tensor(f"DATA: {path}: {name}", array, kind) for name, array in arrays.items()}
    total = next(iter(lengths.values()))
    return [
        _named({name: each[at : at + BATCH] for name, each in tensors.items()})
        for at in range(0, total, BATCH)
    ]


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _tensor(name: str, array: np.ndarray, kind: torch.dtype | None) -> Tensor:
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float64)).to(kind)
    if array.dtype.kind in "iu":
        return torch.from_numpy(array.astype(np.int64))
    if array.dtype.kind == "b":
        return torch.from_numpy(array)
    raise expected(name, "numbers", str(array.dtype))


def _named(batch: dict[str, Tensor]) -> Batch:
    """X alone or with its y, in place of named inputs."""
    if "x" not in batch:
        return batch
    others = [each for name, each in batch.items() if name != "x"]
    return (batch["x"], *others)


def _lines(path: Path, model: str) -> list[Batch]:
    lines = [
        _line(f"DATA: {path}: line {number}", line)
        for number, line in enumerate(_text_of(path).splitlines(), 1)
        if line.strip()
    ]
    if not lines:
        raise InvalidInput(f"DATA: {path}: expected samples, got none")
    labelled = [line for line in lines if "labels" in line]
    if labelled and len(labelled) < len(lines):
        raise InvalidInput(f"DATA: {path}: expected a label on every line or on none, got {len(labelled)}")
    tokenizer, positions = _tokenizer(path, model), _config(Path(model)).get("max_position_embeddings")
    most = min(
        tokenizer.model_max_length, MAX_TOKENS, positions if isinstance(positions, int) else MAX_TOKENS
    )
    lengths = _called(f"DATA: {path}", _lengths, tokenizer, lines, most)
    return [_called(f"DATA: {path}", _tokenized, tokenizer, some, most) for some in _alike(lines, lengths)]


def _lengths(tokenizer: Any, lines: Sequence[dict[str, Any]], most: int) -> list[int]:
    """Tokens of each text."""
    ids = tokenizer([line["text"] for line in lines], truncation=True, max_length=most)[IDS]
    return [len(each) for each in ids]


def _alike(lines: Sequence[Line], lengths: Sequence[int]) -> list[list[Line]]:
    """Texts of like lengths together, since all of a batch are padded to its longest.

    What is reported for a sample, such as its cost, is that of the first batch: that of middling length.

    >>> _alike(["aaa", "a", "aaaa", "aa"], [3, 1, 4, 2])
    [['aaaa', 'aaa', 'aa', 'a']]
    """
    order = sorted(range(len(lines)), key=lambda place: -lengths[place])
    some = [[lines[place] for place in order[at : at + BATCH]] for at in range(0, len(lines), BATCH)]
    return [some.pop((len(some) - 1) // 2), *some]


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"DATA: {path}: expected text in UTF-8, got another encoding") from None


def _line(name: str, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as problem:
        raise InvalidInput(f"{name}: expected JSON: {problem}") from None
    if isinstance(found, str):
        return {"text": found}
    text = next((found[key] for key in TEXTS if key in found), None) if isinstance(found, dict) else None
    if not isinstance(text, str):
        raise expected(name, 'a text, or an object with "text"', found)
    label = next((found[key] for key in LABELS if key in found), None)
    return {"text": text} if label is None else {"text": text, "labels": label}


def _has_tokenizer(model: str) -> bool:
    return any((Path(model) / name).exists() for name in TOKENIZERS)


def _tokenizer(path: Path, model: str) -> Any:
    if is_function(model):
        raise InvalidInput(
            f"DATA: {path}: texts need the tokenizer of a model folder, got {model}; give FILE.py:function"
        )
    if not _has_tokenizer(model):
        raise InvalidInput(f"DATA: {path}: texts need a tokenizer, and the folder {model} has none")
    transformers = needed("transformers", extra="transformers", purpose="reading texts")
    tokenizer = _called(
        f"MODEL: {model}: tokenizer",
        lambda: transformers.AutoTokenizer.from_pretrained(model, local_files_only=True),
    )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    tokenizer.padding_side = "right"
    return tokenizer


def _tokenized(tokenizer: Any, lines: Sequence[dict[str, Any]], most: int) -> Batch:
    batch = tokenizer(
        [line["text"] for line in lines],
        padding=True,
        truncation=True,
        max_length=most,
        return_tensors="pt",
    )
    labels = {"labels": _labels(tokenizer, lines, most)} if "labels" in lines[0] else {}
    return {**batch, **labels, TEXT: [line["text"] for line in lines]}


def _labels(tokenizer: Any, lines: Sequence[dict[str, Any]], most: int) -> Tensor:
    """Numbers as they are; texts as tokens, with what no loss counts where they are padded."""
    labels = [line["labels"] for line in lines]
    if not all(isinstance(each, str) for each in labels):
        return torch.tensor(labels)
    found = tokenizer(text_target=labels, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return found[IDS].masked_fill(found["attention_mask"] == 0, IGNORED)
