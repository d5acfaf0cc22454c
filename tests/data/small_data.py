"""Small data in the forms that people have it in, and what writes each into a file."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from headcount.data.arrays import data_set
from headcount.data.long_form import Columns

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


WIDE = pd.DataFrame(X[..., 0], columns=[f"v{place}" for place in range(LENGTH)]).assign(y=Y)
RECORDS = [{"x": row.tolist(), "y": y} for row, y in zip(RAGGED, Y, strict=True)]
NAN = np.where(MASK[..., None], X, np.nan)
