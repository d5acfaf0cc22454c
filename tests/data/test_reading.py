"""What people have in files, as they have it: read as it is meant, or refused in one line."""

import gzip
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from small_data import (
    BY_SERIES,
    IDS,
    LABELS,
    LENGTHS,
    LONG,
    MASK,
    MASKED,
    NAN,
    PLAIN,
    RAGGED,
    RECORDS,
    SHORTER,
    TOKENS,
    WIDE,
    X,
    Y,
    content,
    csv,
    lines,
    npz,
    pair,
    parquet,
)

from headcount.data.arrays import data_set
from headcount.data.files import load
from headcount.data.long_form import Columns
from headcount.errors import InvalidInput


def damaged(path):
    np.savez_compressed(path, x=X, y=Y)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes(2800) + whole[3000:])


def objects(path):
    np.savez(path, x=np.array([None, 1], dtype=object), y=Y)


HOLES = LONG.assign(b=LONG["b"].where(LONG.index != 12))
MIXED = LONG.assign(y=LONG["y"] + (LONG.index == 1))
TWICE = LONG.assign(t=LONG["t"].where(LONG["t"] != 1, 0))
DATES = LONG.assign(t=pd.Timestamp("2030-01-08") + pd.to_timedelta(LONG["t"], unit="D"))
GERMAN = LONG.map(lambda cell: str(cell).replace(".", ",") if isinstance(cell, float) else cell)
NULL = [{"x": row.tolist(), "y": y} for row, y in zip(X, Y, strict=True)]
NULL[9] = {"x": [[1, None], *X[9, 1:].tolist()], "y": 1}
UNEVEN = [*NULL[:9], {"x": [[1], *X[9, 1:].tolist()], "y": 1}, *NULL[10:]]
STRAY = LONG.assign(
    a=LONG["a"].where(LONG.index % 7 > 0), b=LONG["b"].where((LONG.index % 7 > 0) & (LONG.index != 12))
)
ONE_MORE = NAN.copy()
ONE_MORE[7, 0, 1] = np.nan

# What is in the file, how it is read, and the data or the summary that must come out.
READ = {
    "npz": (npz(x=X, y=Y, more=np.ones(3)), {}, PLAIN),
    "npz with a mask": (npz(x=X, y=Y, mask=MASK), {}, MASKED),
    "npz with usual names": (npz(X=X, labels=Y), {}, PLAIN),
    "npz with other names": (npz(series=X, price=Y, x=Y), {"x": "series", "y": "price"}, PLAIN),
    "npz with data and target": (npz(data=X, target=Y), {}, PLAIN),
    "npz with PyTorch's mask": (npz(x=X, y=Y, key_padding_mask=~MASK), {}, MASKED),
    "npz with PyTorch's mask in integers": (npz(x=X, y=Y, src_key_padding_mask=1 - MASK), {}, MASKED),
    "npz with both masks": (npz(x=X, y=Y, key_padding_mask=~MASK, mask=MASK), {}, MASKED),
    "a mask for padding, said": (
        npz(x=X, y=Y, key_padding_mask=~MASK),
        {},
        f"a mask hides {1 - MASK.mean():.0%} of all tokens (key_padding_mask, true for padding)",
    ),
    "arrays that are not used": (npz(x=X, y=Y, x_test=X, ids=IDS), {}, "; no mask; not used: x_test, ids"),
    "a tokenizer's output": (npz(input_ids=IDS, attention_mask=MASK.astype(int), label=LABELS), {}, TOKENS),
    "npy files": (("x.npy", pair), {"y": "y.npy", "mask": "mask.npy"}, MASKED),
    "Parquet of lists": (parquet({"x": [row.tolist() for row in RAGGED], "y": Y, "n": Y}), {}, MASKED),
    "Parquet, long": (("data.parquet", lambda path: LONG.to_parquet(path)), BY_SERIES, MASKED),
    "CSV, long": (csv(LONG), BY_SERIES, MASKED),
    "CSV that names its features": (csv(LONG), BY_SERIES, "2 numbers each (a, b)"),
    "CSV with y by its usual name": (
        csv(LONG.rename(columns={"y": "Label"})),
        {"columns": Columns("series", "t")},
        MASKED,
    ),
    "CSV with semicolons": (csv(LONG, sep=";"), BY_SERIES, MASKED),
    "CSV with semicolons, zipped": (csv(LONG, "data.csv.gz", sep=";"), BY_SERIES, MASKED),
    "CSV with bars": (csv(LONG, sep="|"), BY_SERIES, MASKED),
    "CSV with decimal commas": (csv(GERMAN, sep=";"), BY_SERIES, MASKED),
    "CSV with columns that are not used": (
        csv(LONG.assign(c=1.0)),
        BY_SERIES,
        "all tokens; not used: c",
    ),
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
    "CSV that names its tokens": (
        csv(WIDE),
        {"columns": Columns(features="v0:v5")},
        "6 tokens (v0, v1, v2, v3, v4, v5), 1 number each",
    ),
    "JSON lines": (lines(RECORDS), {}, MASKED),
    "JSON lines of a tokenizer": (
        lines(
            [
                {"input_ids": ids[:length].tolist(), "attention_mask": [1] * length, "label": int(label)}
                for ids, length, label in zip(IDS, LENGTHS.tolist(), LABELS, strict=True)
            ]
        ),
        {},
        TOKENS,
    ),
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
    "no y": (npz(x=X, z=Y), {}, 'expected x and y (or another name, with y="NAME"), got no y among x, z'),
    "no y in lines": (lines([{"x": [1], "z": 2}]), {}, "got no y among x, z"),
    "a name that is not there": (npz(x=X, y=Y), {"y": "price"}, "y: expected one of x, y, got 'price'"),
    "text as Parquet": (content("data.parquet", b"x, y\n"), {}, "not Parquet, or damaged"),
    "a missing sequence": (
        parquet({"x": [*X.tolist()[:4], None, *X.tolist()[5:]], "y": Y}),
        {},
        "x: expected no missing values, got 1, the first in sample 4 (counted from 0)",
    ),
    "a missing number": (lines(NULL), {}, "such as None in sample 9, token 0, feature 1 (counted from 0)"),
    "tokens of two sizes": (
        lines(UNEVEN),
        {},
        "its rows differ in size, or some are missing, in sample 9 (counted from 0)",
    ),
    "a missing label": (
        lines([{"x": [place, 2, 3], "y": None if place == 7 else "ab"[place % 2]} for place in range(200)]),
        {},
        "y: expected numbers, or text for labels, got values of type object, such as None in sample 7",
    ),
    "a long Parquet without id": (("data.parquet", lambda path: LONG.to_parquet(path)), {}, 'id="COLUMN"'),
    "long lines without id": (lines(LONG.to_dict("records")), {}, 'id="COLUMN"'),
    "PyTorch's mask with other values": (
        npz(x=X, y=Y, key_padding_mask=np.where(MASK, 0, -np.inf)),
        {},
        "mask: expected bools, or 0 and 1, got -inf",
    ),
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
    "a hole in a table": (
        csv(HOLES),
        BY_SERIES,
        "column b, got 1 missing, the first in row 12 (counted from 0)$",
    ),
    "a hole in a table, as padding": (csv(HOLES), {**BY_SERIES, "padding": "nan"}, "got nan at sample "),
    "rows without numbers": (
        csv(LONG.assign(a=LONG["a"].where(LONG.index != 12), b=LONG["b"].where(LONG.index != 12))),
        BY_SERIES,
        'the first in row 12 (counted from 0); if rows without numbers are padding: padding="nan"$',
    ),
    "rows without numbers, and a hole": (
        csv(STRAY),
        BY_SERIES,
        "column b, got 1 missing, the first in row 12 (counted from 0); and "
        f'{len(LONG.index[::7])} rows without any number; if they are padding: padding="nan"$',
    ),
    "a hole in a row that is a sequence": (
        csv(WIDE.assign(v3=WIDE["v3"].where(WIDE.index != 3))),
        {"columns": Columns(features="v0:v5")},
        'the first in row 3 (counted from 0); if rows without numbers are padding: padding="nan"$',
    ),
    "text in a table": (
        csv(LONG.assign(a=LONG["a"].astype(str).where(LONG.index != 7, "low"))),
        BY_SERIES,
        "numbers in column a, got text such as 'low' in row 7 (counted from 0)",
    ),
    "a range from back to front": (
        csv(WIDE),
        {"columns": Columns(features="v5:v0")},
        "features: expected the first column and then the last, v0:v5, got v5:v0",
    ),
    "many columns": (
        csv(pd.DataFrame({f"v{place}": [1.0] for place in range(30)}).assign(price=1.0)),
        {"columns": Columns(features="v0:v29")},
        "one of v0, v1, v2, v3, v4, v5, v6, v7, v8, …, v28, v29, price; got none",
    ),
    "a table without rows": (content("data.csv", b"series,t,a,b,y\n"), BY_SERIES, "got a table without rows"),
    "y that is missing": (
        csv(LONG.assign(y=LONG["y"].where(LONG["series"] != "s3"))),
        BY_SERIES,
        "y: expected a value in every sequence, got none in sequence 's3'",
    ),
    "a table in another encoding": (
        content("data.csv", "série,y\n1,2\n".encode("latin-1")),
        BY_SERIES,
        "expected text in UTF-8",
    ),
    "a mask of a table": (csv(LONG), {**BY_SERIES, "mask": "t"}, "mask: expected none for a table"),
    "a long table as columns": (parquet({"t": [1, 2], "x": [0.5, 1.5], "y": [1.0, 2.0]}), {}, 'id="COLUMN"'),
    "an id for arrays": (npz(x=X, y=Y), BY_SERIES, "expected a table for id, time or features"),
    "an empty table": (content("data.csv", b""), {}, "the file is empty"),
    "a broken table": (content("data.csv", b"a,b\n1,2\n1,2,3\n"), {}, "damaged: Error tokenizing"),
    "a broken gzip": (content("data.csv.gz", gzip.compress(b"a,b\n" * 99)[:-9]), {}, "damaged"),
    "a broken line": (content("data.jsonl", b'{"x": [1], "y": 1}\n{"x"'), {}, "damaged: line 2 is no JSON"),
    "a broken line after an empty one": (
        content("data.jsonl", b'{"x": [1], "y": 1}\n\n{"x"'),
        {},
        "line 3 is",
    ),
    "lines that differ": (lines([{"x": [1], "y": 2}, {"x": [1]}]), {}, "line 2 differs in y"),
    "lines of lists": (lines([[1, 2]]), {}, "expected lines such as"),
    "no lines": (content("data.jsonl", b"\n"), {}, "the file is empty"),
    "NaN as padding, unsaid": (
        npz(x=NAN, y=Y),
        {},
        f"got nan at sample 0, token 2, feature 0 (counted from 0); {2 * (~MASK).sum():,} such values in "
        f'{int((~MASK).any(axis=1).sum())} samples; if NaN only fills up shorter sequences: padding="nan"',
    ),
    "NaN as padding, and one that is not": (
        npz(x=ONE_MORE, y=Y),
        {},
        "got nan at sample 7, token 0, feature 1 (counted from 0); and "
        f"{(~MASK).sum():,} tokens of nothing but NaN; if they only fill up shorter sequences: "
        'padding="nan"$',
    ),
    "NaN within tokens": (npz(x=np.where(X > 3, np.nan, X), y=Y), {"padding": "nan"}, "got nan at sample"),
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
    assert line in f"{refusal.value}$" and "\n" not in str(refusal.value)
    assert str(refusal.value).count(str(tmp_path)) == 1 or line.startswith("y: expected an .npy")


def test_files_of_tensors_need_pytorch_and_hold_nothing_but_tensors(tmp_path, monkeypatch):
    path = tmp_path / "data.pt"
    path.write_bytes(b"tensors")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InvalidInput, match=r"needs the package torch: pip install 'headcount\[torch\]'"):
        load(path)
    for stored, line in {
        (X.tobytes(),): "expected tensors",
        "weights_only": "expected tensors",
        "bad zip": "the file is damaged: bad zip",
        None: "",
    }.items():

        def read(path, *, map_location, weights_only, stored=stored):
            assert weights_only
            if isinstance(stored, str):
                raise RuntimeError(stored)
            return stored or (X, Y)

        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(load=read))
        if not line:
            assert load(path).fingerprint == PLAIN.fingerprint
            continue
        with pytest.raises(InvalidInput, match=line):
            load(path)
