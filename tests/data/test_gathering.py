"""What people have in Python: taken apart into x, y and a mask, or refused in one line."""

import sys
from collections import UserDict
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from small_data import (
    IDS,
    LABELS,
    LENGTHS,
    LONG,
    MASK,
    MASKED,
    PLAIN,
    RAGGED,
    RECORDS,
    SAMPLES,
    TOKENS,
    X,
    Y,
    content,
    csv,
    lines,
    npz,
    pair,
)

from headcount.data.arrays import data_set
from headcount.data.long_form import Columns
from headcount.data.sources import gathered
from headcount.errors import InvalidInput


def of_library(module, **members):
    """A stand-in for a type of a library that is not installed."""
    return type("StandIn", (), {"__module__": module, **members})


class HuggingFace(of_library("datasets.arrow_dataset")):
    """As a Dataset: columns that are chosen, in the format of Arrow."""

    def __init__(self, columns):
        self.columns, self.column_names = columns, list(columns)

    def __len__(self):
        return SAMPLES

    def select_columns(self, names):
        return HuggingFace({name: self.columns[name] for name in names})

    def with_format(self, kind):
        assert kind == "arrow"
        return Whole(pa.table(self.columns))


class Whole:
    """What a Dataset gives when all of it is asked for."""

    def __init__(self, table):
        self.table = table

    def __getitem__(self, rows):
        assert rows == slice(None)
        return self.table


def items(samples):
    """A map-style Dataset of PyTorch."""
    members = {"__len__": lambda _: len(samples), "__getitem__": lambda _, place: samples[place]}
    return of_library("torch.utils.data.dataset", **members)()


def loader(batches):
    members = {"batch_sampler": None, "__iter__": lambda _: iter(batches)}
    return of_library("torch.utils.data.dataloader", **members)()


STREAM = type("StandIn", (), {"__module__": "datasets.iterable_dataset", "column_names": None})()
TENSORS = of_library("torch.utils.data.dataset", tensors=(X, Y))()
TEXTS = {"input_ids": IDS.tolist(), "attention_mask": MASK.astype(int).tolist(), "labels": LABELS.tolist()}
SHORT = sorted(range(SAMPLES), key=lambda place: LENGTHS[place])
SORTED = data_set(X[SHORT], Y[SHORT], MASK[SHORT])


def batches_by_length(*arrays):
    cuts = [SHORT[place : place + 50] for place in range(0, SAMPLES, 50)]
    return [
        tuple(each[cut][:, : LENGTHS[cut].max()] if each.ndim > 1 else each[cut] for each in arrays)
        for cut in cuts
    ]


GATHERED = {
    "a dict of arrays": ((UserDict(TEXTS),), {}, TOKENS),
    "a tokenizer's output and labels": ((UserDict({**TEXTS, "labels": None}), LABELS), {}, TOKENS),
    "a Hugging Face Dataset": ((HuggingFace({**TEXTS, "text": ["a"] * SAMPLES}),), {}, TOKENS),
    "its label of another name": ((HuggingFace({**TEXTS, "stars": TEXTS["labels"]}), "stars"), {}, TOKENS),
    "a TensorDataset": ((TENSORS,), {}, PLAIN),
    "a Dataset of pairs": ((items(list(zip(X, Y, strict=True))),), {}, PLAIN),
    "a Dataset of dicts": (
        (items([{"input_ids": x, "labels": y} for x, y in zip(X, Y, strict=True)]),),
        {},
        PLAIN,
    ),
    "a DataLoader of pairs": ((loader([(X[:200], Y[:200]), (X[200:], Y[200:])]),), {}, PLAIN),
    "a DataLoader that pads": ((loader(batches_by_length(X, Y, MASK)),), {}, SORTED),
    "a data frame in long form": ((LONG, "y"), {"id": "series", "time": "t"}, MASKED),
    "a data frame of lists": ((pd.DataFrame(TEXTS),), {}, TOKENS),
    "a data frame of lists, y by name": (
        (pd.DataFrame(TEXTS).rename(columns={"labels": "stars"}), "stars"),
        {},
        TOKENS,
    ),
    "a data frame by the levels of its index": (
        (LONG.set_index(["series", "t"]), "y"),
        {"id": "series", "time": "t"},
        MASKED,
    ),
    "a data frame by one level": ((LONG.set_index(["series", "t"]),), {"id": "series"}, MASKED),
    "a dict with PyTorch's mask": (({"x": X, "y": Y, "key_padding_mask": ~MASK},), {}, MASKED),
    "a DataLoader with PyTorch's mask": (
        (
            loader(
                [{"x": x, "y": y, "key_padding_mask": ~mask} for x, y, mask in batches_by_length(X, Y, MASK)]
            ),
        ),
        {},
        SORTED,
    ),
    "a mask by its name": (({"x": X, "y": Y, "padding_mask": MASK}, None, "padding_mask"), {}, MASKED),
    "targets from elsewhere": ((LONG.drop(columns="y"), Y), {"id": "series", "time": "t"}, MASKED),
    "an Arrow table in long form": ((pa.Table.from_pandas(LONG), "y"), {"id": "series", "time": "t"}, MASKED),
    "an xarray Dataset": (
        ({name: pd.Series(list(part)) for name, part in {"x": X, "y": Y}.items()},),
        {},
        PLAIN,
    ),
    "lists of different lengths": (([row.tolist() for row in RAGGED], Y.tolist()), {}, MASKED),
}

UNUSED = {"a Hugging Face Dataset": ("text",), "its label of another name": ("labels",)}
NOT_GATHERED = {
    "no y": ((X,), "y: expected one entry per sample, got None"),
    "no y in a dict": (
        ({"x": X, "price": Y},),
        'expected x and y (or another name, with y="NAME"), got no y among x, price',
    ),
    "no x in a dict": (({"a": X, "y": Y},), "expected x (or pass the arrays themselves), got a, y"),
    "a level that is not there": (
        (LONG.set_index(["series", "t"]), "y"),
        "id: expected one of series, t, a, b, y, got 'serie'",
        {"id": "serie"},
    ),
    "two columns of one name": ((pd.concat([LONG, LONG["a"]], axis=1), "y"), "'a' twice", {"id": "series"}),
    "a file that is not there": (("nowhere.npz",), "nowhere.npz: no such file"),
    "a file of another kind": (("text.txt", Y), "text.txt: no such file"),
    "a mask of other lengths": ((RAGGED, Y, MASK), "or one that is as long as its sequence"),
    "PyTorch's mask of text": (
        ({"x": X, "y": Y, "key_padding_mask": [["a"] * X.shape[1]] * SAMPLES},),
        "mask: expected bools, or 0 and 1, got 'a'",
    ),
    "a mask that is no array": ((RAGGED, Y, 3), "or one that is as long as its sequence"),
    "a name for y of an array": ((X, "y"), "y: expected one entry per sample, got 'y'"),
    "a column that is not there": ((LONG, "price"), "y: expected one of series, t, a, b, y, got 'price'"),
    "a data frame without id": ((LONG, "y"), 'expected id="COLUMN"'),
    "columns of an array": ((X, Y), "a data frame for id", {"id": "series"}),
    "all splits": (
        ({"train": HuggingFace(TEXTS), "test": HuggingFace(TEXTS)},),
        "one of the splits train, test",
    ),
    "a stream": ((STREAM,), "got a stream"),
    "an empty loader": ((loader([]),), "got a DataLoader without any"),
    "an empty Dataset": ((items([]),), "got an empty Dataset"),
    "batches of many parts": ((loader([(X, Y, MASK, Y)]),), "got 4 parts each"),
    "padded batches without a mask": (
        (loader(batches_by_length(X, Y)),),
        "got none, and batches of 2 to 6 tokens",
    ),
    "a dict without x": (({"text": ["a"]},), "got text"),
}


@pytest.mark.parametrize("name", GATHERED)
def test_what_holds_x_and_y_together_is_taken_apart(name):
    given, columns, wanted = GATHERED[name]
    x, y, mask = (*given, None, None)[:3]
    parts = gathered(x, y, mask, Columns(**columns))
    data = data_set(*parts)
    assert data.fingerprint == wanted.fingerprint and not data.doubts
    assert parts.origin.unused == UNUSED.get(name, ())


@pytest.mark.parametrize("name", NOT_GATHERED)
def test_what_cannot_be_taken_apart_is_refused_in_one_line(name):
    given, line, *columns = NOT_GATHERED[name]
    with pytest.raises(InvalidInput) as refusal:
        data_set(*gathered(*(*given, None, None)[:3], Columns(**(columns or [{}])[0])))
    assert line in str(refusal.value) and "\n" not in str(refusal.value)


FILES = {
    "npz": (npz(x=X, y=Y), (), {}, PLAIN),
    "npz, its y and its mask by name": (npz(x=X, price=Y, there=MASK), ("price", "there"), {}, MASKED),
    "npz, y from elsewhere": (npz(x=X), (Y,), {}, PLAIN),
    "npz, y and a mask from elsewhere": (npz(x=X, padding_mask=MASK), (Y, MASK), {}, MASKED),
    "npy": (("x.npy", pair), ("y.npy", "mask.npy"), {}, MASKED),
    "npy, y from elsewhere": (("x.npy", pair), (Y,), {}, PLAIN),
    "CSV": (csv(LONG), ("y",), {"id": "series", "time": "t"}, MASKED),
    "CSV, y from elsewhere": (csv(LONG.drop(columns="y")), (Y,), {"id": "series", "time": "t"}, MASKED),
    "Parquet, long": (
        ("data.parquet", lambda path: LONG.to_parquet(path)),
        (),
        {"id": "series", "time": "t"},
        MASKED,
    ),
    "JSON lines": (lines(RECORDS), (), {}, MASKED),
}


@pytest.mark.parametrize("as_path", [str, Path])
@pytest.mark.parametrize("name", FILES)
def test_python_reads_the_same_files(name, as_path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (file, write), given, columns, wanted = FILES[name]
    write(tmp_path / file)
    parts = gathered(as_path(file), *(*given, None, None)[:2], Columns(**columns))
    data = data_set(*parts)
    assert data.fingerprint == wanted.fingerprint and not data.doubts


REFUSED = {
    "no x": (npz(z=X, y=Y), (), {}, "expected x (or pass the arrays themselves), got z, y"),
    "no y": (npz(x=X, z=Y), (), {}, 'expected x and y (or another name, with y="NAME"), got no y among x, z'),
    "a table without id": (csv(LONG), (), {}, 'expected id="COLUMN"'),
    "a column that is not there": (
        csv(LONG),
        ("price",),
        {"id": "series"},
        "y: expected one of series, t, a",
    ),
    "an empty table": (content("data.csv", b""), (), {"id": "series"}, "the file is empty"),
    "a mask of a table": (csv(LONG), ("y", "t"), {"id": "series"}, "mask: expected none for a table"),
    "a folder": (("data.npz", Path.mkdir), (), {}, "expected a file, got a folder"),
    "no file": (("data.npy", lambda path: None), (Y,), {}, "no such file"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_python_refuses_the_same_files_in_its_own_words(name, tmp_path):
    (file, write), given, columns, line = REFUSED[name]
    write(tmp_path / file)
    with pytest.raises(InvalidInput) as refusal:
        gathered(tmp_path / file, *(*given, None, None)[:2], Columns(**columns))
    assert str(refusal.value).startswith(f"{tmp_path / file}: {line}")
    assert " x=" not in str(refusal.value)  # fit has no argument for the name of x


def test_looking_at_data_imports_no_library():
    assert not {"torch", "datasets", "xarray"} & sys.modules.keys()
