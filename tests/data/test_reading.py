"""What people have, as they have it: read as it is meant, or refused in one line."""

import gzip
import json
import sys
from collections import UserDict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headcount.data.arrays import data_set
from headcount.data.files import load
from headcount.data.long_form import Columns
from headcount.data.sources import gathered
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(0)
SAMPLES, LENGTH = 240, 6
X = RANDOM.normal(size=(SAMPLES, LENGTH, 2))
Y = X.max(axis=1).sum(axis=1)
LABELS = (np.median(Y) < Y).astype(int)
LENGTHS = RANDOM.integers(2, LENGTH + 1, size=SAMPLES)
LENGTHS[:2] = 2, LENGTH
MASK = np.arange(LENGTH) < LENGTHS[:, None]
RAGGED = [row[:length] for row, length in zip(X, LENGTHS, strict=True)]
IDS = RANDOM.integers(3, 60, size=(SAMPLES, LENGTH))
LONG = pd.DataFrame(
    [
        {"series": f"s{place}", "t": time, "a": row[0], "b": row[1], "y": Y[place]}
        for place, rows in enumerate(RAGGED)
        for time, row in enumerate(rows)
    ]
)
NUMBERS, SHORTER = "240 sequences of 6 tokens, 2 numbers each", "240 sequences of 2 to 6 tokens, 2 numbers"
PLAIN, MASKED = data_set(X, Y), data_set(X, Y, MASK)
TOKENS = data_set(IDS, LABELS, MASK)
BY_SERIES = {"columns": Columns("series", "t", ("a", "b")), "y": "y"}


def npz(**arrays):
    return "data.npz", lambda path: np.savez(path, **arrays)


def parquet(table):
    return "data.parquet", lambda path: pq.write_table(pa.table(table), path)


def csv(frame, name="data.csv", **options):
    return name, lambda path: frame.to_csv(path, index=False, **options)


def lines(records):
    return "data.jsonl", lambda path: path.write_text("\n".join(map(json.dumps, records)) + "\n\n")


def content(name, written):
    return name, lambda path: path.write_bytes(written)


def pair(path):
    for name, array in {"x.npy": X, "y.npy": Y, "mask.npy": MASK}.items():
        np.save(path.parent / name, array)


def damaged(path):
    np.savez_compressed(path, x=X, y=Y)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(2800) + whole[3000:])


def objects(path):
    np.savez(path, x=np.array([None, 1], dtype=object), y=Y)


WIDE = pd.DataFrame(X[..., 0], columns=[f"v{place}" for place in range(LENGTH)]).assign(y=Y)
HOLES = LONG.assign(b=LONG["b"].where(LONG.index != 12))
MIXED = LONG.assign(y=LONG["y"] + (LONG.index == 1))
TWICE = LONG.assign(t=LONG["t"].where(LONG["t"] != 1, 0))
DATES = LONG.assign(t=pd.Timestamp("2030-01-08") + pd.to_timedelta(LONG["t"], unit="D"))
RECORDS = [{"x": row.tolist(), "y": y} for row, y in zip(RAGGED, Y, strict=True)]
NAN = np.where(MASK[..., None], X, np.nan)

# What is in the file, how it is read, and the data or the summary that must come out.
READ = {
    "npz": (npz(x=X, y=Y, more=np.ones(3)), {}, PLAIN),
    "npz with a mask": (npz(x=X, y=Y, mask=MASK), {}, MASKED),
    "npz with usual names": (npz(X=X, labels=Y), {}, PLAIN),
    "npz with other names": (npz(series=X, price=Y, x=Y), {"x": "series", "y": "price"}, PLAIN),
    "a tokenizer's output": (npz(input_ids=IDS, attention_mask=MASK.astype(int), label=LABELS), {}, TOKENS),
    "npy files": (("x.npy", pair), {"y": "y.npy", "mask": "mask.npy"}, MASKED),
    "Parquet of lists": (parquet({"x": [row.tolist() for row in RAGGED], "y": Y, "n": Y}), {}, MASKED),
    "Parquet, long": (("data.parquet", lambda path: LONG.to_parquet(path)), BY_SERIES, MASKED),
    "CSV, long": (csv(LONG), BY_SERIES, MASKED),
    "CSV in any order": (csv(LONG.sort_values(["t", "series"])), BY_SERIES, SHORTER),
    "CSV, features by default": (
        csv(LONG.drop(columns="t")),
        {"columns": Columns("series"), "y": "y"},
        MASKED,
    ),
    "CSV with dates": (csv(DATES), BY_SERIES, MASKED),
    "CSV, zipped": (csv(LONG, "data.csv.gz"), BY_SERIES, MASKED),
    "TSV": (csv(LONG, "data.tsv", sep="\t"), BY_SERIES, MASKED),
    "CSV, a row per sequence": (csv(WIDE), {"columns": Columns(features="v0:v5")}, data_set(X[..., 0], Y)),
    "JSON lines": (lines(RECORDS), {}, MASKED),
    "JSON lines, long": (lines(LONG.to_dict("records")), BY_SERIES, MASKED),
    "NaN as padding": (npz(x=NAN, y=Y), {"padding": "nan"}, MASKED),
    "a number as padding": (npz(x=np.where(MASK, IDS, 0), y=LABELS), {"padding": "0"}, TOKENS),
    "padding at the start": (
        npz(x=np.where(MASK, IDS, 0)[:, ::-1], y=LABELS),
        {"padding": 0},
        "a mask hides",
    ),
    "labels as floats": (npz(x=X, y=LABELS + 0.0), {"target": "labels"}, "2 labels, 0.0 (120), 1.0 (120)"),
    "one-hot labels": (npz(x=X, y=np.eye(2)[LABELS]), {"target": "labels"}, data_set(X, LABELS)),
    "ids as floats": (npz(x=IDS + 0.0, y=LABELS, mask=MASK), {"tokens": "ids"}, TOKENS),
    "integers as quantities": (npz(x=IDS, y=Y), {"tokens": "numbers"}, "6 tokens, 1 number each"),
}

REFUSED = {
    "no such file": (("data.npz", lambda path: None), {}, "no such file"),
    "a folder": (("data.npz", Path.mkdir), {}, "expected a file, got a folder"),
    "another kind of file": (content("data.xlsx", b"x"), {}, "expected a file of one of .npz, .npy"),
    "no kind of file": (content("data", b"x"), {}, "got no extension"),
    "text as npz": (content("data.npz", b"x, y"), {}, "another file, or damaged"),
    "a damaged npz": (("data.npz", damaged), {}, "the file is damaged"),
    "objects in npz": (("data.npz", objects), {}, "got objects"),
    "a damaged npy": (content("x.npy", b"\x93NUMPY\x01\x00v"), {"y": "x.npy"}, "x.npy: the file is damaged"),
    "x alone": (("x.npy", pair), {}, 'y: expected an .npy file, y="FILE", got none'),
    "y not as npy": (("x.npy", pair), {"y": "y.csv"}, "y.csv: expected an .npy file"),
    "no x": (npz(z=X, y=Y), {}, 'expected x (or another name, with x="NAME"), got z, y'),
    "no y": (npz(x=X, z=Y), {}, 'expected x and y (or another name, with y="NAME"), got no y'),
    "a name that is not there": (npz(x=X, y=Y), {"y": "price"}, "y: expected one of x, y, got 'price'"),
    "text as Parquet": (content("data.parquet", b"x, y\n"), {}, "not Parquet, or damaged"),
    "a missing sequence": (parquet({"x": [None, *X.tolist()[1:]], "y": Y}), {}, "x: expected no missing"),
    "a table without id": (csv(LONG), {}, 'expected id="COLUMN", the column that tells sequences apart'),
    "a column that is not there": (
        csv(LONG),
        {"columns": Columns("serie")} | {"y": "y"},
        "id: expected one of series, t, a, b, y, got 'serie'",
    ),
    "a table without y": (
        csv(LONG.drop(columns="y")),
        {"columns": Columns("series")},
        "y: expected a column",
    ),
    "y that varies": (csv(MIXED), BY_SERIES, "y: expected one value per sequence, got "),
    "a time twice": (csv(TWICE), BY_SERIES, "time: expected each value once per sequence, got 0 twice in"),
    "times as text": (csv(LONG.assign(t=LONG["t"].map("{}/1/30".format))), BY_SERIES, "numbers or dates"),
    "a hole in a table": (csv(HOLES), BY_SERIES, "column b, got 1 missing, the first in row 12 ("),
    "text in a table": (csv(LONG.assign(a="low")), BY_SERIES, "numbers in column a, got text such as 'low'"),
    "a mask of a table": (csv(LONG), {**BY_SERIES, "mask": "t"}, "mask: expected none for a table"),
    "a long table as columns": (parquet({"t": [1, 2], "x": [0.5, 1.5], "y": [1.0, 2.0]}), {}, 'id="COLUMN"'),
    "an id for arrays": (npz(x=X, y=Y), BY_SERIES, "expected a table for id, time or features"),
    "an empty table": (content("data.csv", b""), {}, "the file is empty"),
    "a broken table": (content("data.csv", b"a,b\n1,2\n1,2,3\n"), {}, "damaged: Error tokenizing"),
    "a broken gzip": (content("data.csv.gz", gzip.compress(b"a,b\n" * 99)[:-9]), {}, "damaged"),
    "a broken line": (content("data.jsonl", b'{"x": [1], "y": 1}\n{"x"'), {}, "damaged: line 2 is no JSON"),
    "lines that differ": (lines([{"x": [1], "y": 2}, {"x": [1]}]), {}, "line 2 differs in y"),
    "lines of lists": (lines([[1, 2]]), {}, "expected lines such as"),
    "no lines": (content("data.jsonl", b"\n"), {}, "the file is empty"),
    "NaN as padding, unsaid": (
        npz(x=NAN, y=Y),
        {},
        f"got nan at sample 0, token 2, feature 0 (counted from 0); {2 * (~MASK).sum():,} such values in "
        f'{int((~MASK).any(axis=1).sum())} samples; if NaN only fills up shorter sequences: padding="nan"',
    ),
    "NaN within tokens": (npz(x=np.where(X > 3, np.nan, X), y=Y), {"padding": "nan"}, "padding: expected"),
    "padding that is not there": (npz(x=X, y=Y), {"padding": "7"}, "expected tokens of 7 that fill up"),
    "padding that is no number": (npz(x=X, y=Y), {"padding": "none"}, 'padding: expected a number or "nan"'),
    "fractions as ids": (npz(x=X[..., 0], y=Y), {"tokens": "ids"}, "expected whole numbers as ids"),
    "vectors as ids": (npz(x=X, y=Y), {"tokens": "ids"}, "expected one id per token"),
}


def written(case, folder, options):
    (name, write), path = case, folder / case[0]
    write(path)
    files = {
        key: str(folder / value) for key, value in options.items() if str(value).endswith((".npy", "y.csv"))
    }
    assert name == path.name
    return path, options | files


@pytest.mark.parametrize("name", READ)
def test_data_is_read_as_it_is_meant(name, tmp_path):
    case, options, wanted = READ[name]
    path, options = written(case, tmp_path, options)
    data = load(path, **options)
    assert not data.doubts
    if isinstance(wanted, str):
        assert wanted in data.summary
    else:
        assert (data.fingerprint, data.ids) == (wanted.fingerprint, wanted.ids)


@pytest.mark.parametrize("name", REFUSED)
def test_other_data_is_refused_in_one_line_that_names_the_file(name, tmp_path):
    case, options, line = REFUSED[name]
    path, options = written(case, tmp_path, options)
    with pytest.raises(InvalidInput) as refusal:
        load(path, **options)
    assert line in str(refusal.value) and "\n" not in str(refusal.value)
    assert str(refusal.value).count(str(tmp_path)) == 1 or line.startswith("y: expected an .npy")


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
    "targets from elsewhere": ((LONG.drop(columns="y"), Y), {"id": "series", "time": "t"}, MASKED),
    "an Arrow table in long form": ((pa.Table.from_pandas(LONG), "y"), {"id": "series", "time": "t"}, MASKED),
    "an xarray Dataset": (
        ({name: pd.Series(list(part)) for name, part in {"x": X, "y": Y}.items()},),
        {},
        PLAIN,
    ),
    "lists of different lengths": (([row.tolist() for row in RAGGED], Y.tolist()), {}, MASKED),
}

NOT_GATHERED = {
    "no y": ((X,), "y: expected one entry per sample, got None"),
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
    assert data_set(*gathered(x, y, mask, Columns(**columns))).fingerprint == wanted.fingerprint


@pytest.mark.parametrize("name", NOT_GATHERED)
def test_what_cannot_be_taken_apart_is_refused_in_one_line(name):
    given, line, *columns = NOT_GATHERED[name]
    with pytest.raises(InvalidInput) as refusal:
        gathered(*(*given, None)[:2], None, Columns(**(columns or [{}])[0]))
    assert line in str(refusal.value) and "\n" not in str(refusal.value)


def test_looking_at_data_imports_no_library():
    assert not {"torch", "datasets", "xarray"} & sys.modules.keys()


def test_files_of_tensors_need_pytorch_and_hold_nothing_but_tensors(tmp_path, monkeypatch):
    path = tmp_path / "data.pt"
    path.write_bytes(b"tensors")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInput, match=r"needs the package torch: pip install 'headcount\[torch\]'"):
        load(path)
    for content, line in {
        (X.tobytes(),): "expected tensors",
        "weights_only": "expected tensors",
        "bad zip": "the file is damaged: bad zip",
        None: "",
    }.items():

        def read(path, *, map_location, weights_only, content=content):
            assert weights_only
            if isinstance(content, str):
                raise RuntimeError(content)
            return content or (X, Y)

        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(load=read))
        if not line:
            assert load(path).fingerprint == PLAIN.fingerprint
            continue
        with pytest.raises(InvalidInput, match=line):
            load(path)


MANY = RANDOM.normal(size=(1_000, 3))
DOUBTED = {
    "a long table": ((MANY, MANY.max(axis=1)), "1,000 sequences of only 3 tokens: if a row is one token"),
    "labels as floats": (
        (X, LABELS + 0.0),
        "2 whole numbers (0, 1) are read as numbers; if they are labels: target=",
    ),
    "one-hot labels": ((X, np.eye(2)[LABELS]), "one-hot codes are read as 2 numbers each"),
    "ids as floats": (
        (IDS + 0.0, Y),
        "57 whole numbers are read as quantities; if they are ids of tokens: tokens=",
    ),
    "ids that are padded": (
        (np.where(MASK, IDS, 0), Y),
        "end with a run of the token 0; if that is padding: padding=0",
    ),
    "padding at the start": ((np.where(MASK, IDS, 1)[:, ::-1], Y), "start with a run of the token 1"),
    "vectors that are padded": (
        (np.where(MASK[..., None], X, [0, 9]), Y),
        "token 0, 9; if that is padding: pass `mask`",
    ),
}
NOT_DOUBTED = {
    "numbers": (X, Y),
    "short sequences, few of them": (X[:, :3], Y),
    "many whole numbers": (X, np.round(1000 * Y)),
    "several outputs": (X, np.stack([LABELS, LABELS], axis=1)),
    "two values for a token": ((X[..., 0] > 0) + 0.0, Y),
    "random bits": ((X[..., 0] > 0).astype(int), Y),
    "a mask for padding": (np.where(MASK, IDS, 0), Y, MASK),
    "an end-of-text token": (np.concatenate([IDS, np.full((SAMPLES, 1), 99)], axis=1), Y),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_what_was_probably_not_meant_is_said(name):
    given, line = DOUBTED[name]
    (doubt,) = data_set(*given).doubts
    assert line in doubt


@pytest.mark.parametrize("name", NOT_DOUBTED)
def test_what_is_fine_or_asked_for_by_name_raises_no_doubt(name):
    assert not data_set(*NOT_DOUBTED[name]).doubts
    assert not data_set(IDS + 0.0, LABELS + 0.0, tokens="numbers", target="numbers").doubts


@pytest.mark.parametrize(
    ("given", "summary"),
    [
        ((X, Y), "240 sequences of 6 tokens, 2 numbers each; y: numbers; no mask"),
        (
            (X, np.stack([Y, -Y], axis=1), MASK),
            "2 to 6 tokens, 2 numbers each; y: 2 numbers each; a mask hides",
        ),
        (
            (IDS, LABELS),
            'each one of 57 ids (if they are quantities: tokens="numbers"); y: 2 labels, 0 (120), 1 (120)',
        ),
        ((X, LABELS), '1 (120) (if they are numbers: target="numbers"); no mask'),
        ((X, np.arange(SAMPLES) % 7 + 0.5), 'y: numbers (if they are labels: target="labels"); no mask'),
        ((X, np.array(list("abcdefg"))[np.arange(SAMPLES) % 7]), "e (34), …; no mask"),
    ],
)
def test_a_line_says_how_data_was_read(given, summary):
    assert summary in data_set(*given).summary
