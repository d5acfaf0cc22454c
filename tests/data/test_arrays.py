"""A person's arrays and files: what is taken, and every way of being refused in one line."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headcount.data import tokens as tokens_module
from headcount.data.arrays import data_set
from headcount.data.files import load
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(0)
X = 3 + 10 * RANDOM.normal(size=(240, 6, 2))
Y = X.max(axis=1).sum(axis=1)
LABELS = (np.median(Y) < Y).astype(int)


def with_value(array, value):
    changed = np.array(array, dtype=float)
    changed.flat[7] = value
    return changed


def test_features_are_standardised_over_the_tokens_that_are_there():
    mask = RANDOM.random((240, 6)) < 0.7
    mask[:, 0] = True
    hidden = np.where(mask[..., None], X, 1e9)
    data = data_set(hidden, Y, mask)
    np.testing.assert_allclose(data.x[mask].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(data.x[mask].std(axis=0), 1, rtol=1e-6)
    assert not data.x[~mask].any()
    assert data.fingerprint == data_set(np.where(mask[..., None], X, np.nan), Y, mask).fingerprint


def test_a_feature_that_never_changes_is_left_out_of_the_scale():
    data = data_set(np.concatenate([X, np.ones((240, 6, 1))], axis=2), Y)
    assert data.token_dim == 3
    assert not data.x[..., 2].any()


@pytest.mark.parametrize("sizes", [(1e-15, 1e6), (1e160, 1e-160), (1e300, 1e-300)])
def test_a_feature_of_any_size_is_standardised(sizes):
    np.testing.assert_allclose(data_set(X * sizes, Y).x, data_set(X, Y).x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("size", "shift"), [(1e-13, 0), (1e-200, 0), (1e160, 0), (1e300, 0), (1, 1e13)])
def test_targets_of_any_size_can_be_learnt(size, shift):
    data = data_set(X, size * Y + shift)
    np.testing.assert_allclose(data.y[:, 0], (Y - Y.mean()) / Y.std(), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(data_set(X, Y).y[:, 0], Y)


def test_a_long_constant_column_is_constant_to_the_last_digit():
    x = np.concatenate(
        [np.random.default_rng(1).normal(size=(50_000, 4, 1)), np.full((50_000, 4, 1), 0.1)], 2
    )
    assert not data_set(x, x[:, 0, 0]).x[..., 1].any()
    with pytest.raises(InvalidInput, match="constant"):
        data_set(x, np.full((50_000, 2), 0.1))


class Tensor:
    """As PyTorch has it: on a device and with a gradient, an array must be asked for in steps."""

    def __init__(self, array, *, steps=()):
        self.array, self.steps = array, steps

    def detach(self):
        return Tensor(self.array, steps=(*self.steps, "detach"))

    def cpu(self):
        return Tensor(self.array, steps=(*self.steps, "cpu"))

    def __array__(self, dtype=None, copy=None):
        assert self.steps == ("detach", "cpu")
        return self.array


def test_arrays_of_other_libraries_are_the_same_data():
    plain = data_set(X.astype(np.float32), Y.astype(np.float32))
    for other in (jnp.asarray, Tensor):
        made = data_set(other(X.astype(np.float32)), other(Y.astype(np.float32)))
        assert made.fingerprint == plain.fingerprint


def test_halves_of_any_library_and_order_are_the_same_data():
    halves = X.astype(np.float16)
    plain = data_set(halves.astype(np.float64), Y).fingerprint
    assert data_set(halves, Y).fingerprint == plain
    assert data_set(np.asfortranarray(halves), Y[:, None]).fingerprint == plain
    brain = jnp.asarray(X, jnp.bfloat16)
    assert data_set(brain, Y).fingerprint == data_set(brain.astype(jnp.float32), Y).fingerprint


def test_sequences_of_different_lengths_are_padded_and_masked():
    lengths = RANDOM.integers(2, 7, size=240)
    lengths[0] = 6
    data = data_set([row[:length] for row, length in zip(X, lengths, strict=True)], Y)
    np.testing.assert_array_equal(data.mask.sum(axis=1), lengths)
    told = data_set(X, Y, np.arange(6) < lengths[:, None])
    assert data.fingerprint == told.fingerprint


@pytest.mark.parametrize(("vocabulary", "size"), [(5, 5), (2000, 64)])
def test_whole_number_tokens_get_codes_that_tell_them_apart(vocabulary, size):
    tokens = RANDOM.integers(vocabulary, size=(400, 12))
    tokens[0, :5] = np.arange(5)
    data = data_set(tokens, RANDOM.normal(size=400))
    assert data.token_dim == size
    codes = {value: data.x[tokens == value] for value in np.unique(tokens)[:40]}
    for value, rows in codes.items():
        np.testing.assert_array_equal(rows, rows[:1].repeat(len(rows), axis=0))
        np.testing.assert_allclose(np.mean(rows[0] ** 2), 1, rtol=1e-6)
        nearest = max(abs(rows[0] @ other[0]) / size for key, other in codes.items() if key != value)
        assert nearest < 0.7


@pytest.mark.parametrize(
    ("y", "target", "classes"),
    [
        (LABELS, "auto", ("0", "1")),
        (LABELS.astype(bool), "auto", ("False", "True")),
        (np.where(LABELS, "cat", "dog"), "auto", ("cat", "dog")),
        (np.where(LABELS, "cat", "dog").astype(object), "auto", ("cat", "dog")),
        (pd.Series(np.where(LABELS, "cat", "dog")), "auto", ("cat", "dog")),
        (pd.Series(np.where(LABELS, "cat", "dog")).astype("category"), "auto", ("cat", "dog")),
        (LABELS, "numbers", ()),
        (np.arange(240), "auto", ()),
        (LABELS.astype(float), "auto", ()),
        (LABELS.astype(float), "labels", ("0.0", "1.0")),
        (np.stack([LABELS, LABELS], axis=1), "auto", ()),
    ],
)
def test_labels_are_told_from_numbers(y, target, classes):
    data = data_set(X, y, target=target)
    assert data.classes == classes
    assert data.targets.shape == (240, data.output_dim)
    if classes:
        np.testing.assert_array_equal(
            np.array(classes)[data.targets.argmax(axis=1)], np.asarray(y).astype(str)
        )


@pytest.mark.parametrize("x", [X, RANDOM.integers(2000, size=(240, 6))])
def test_tokens_that_memory_cannot_hold_are_refused_before_they_are_made(x, monkeypatch):
    monkeypatch.setattr(tokens_module, "COPIES", 10**12)
    with pytest.raises(InvalidInput, match=r"240 samples of 6 tokens of (2|64) numbers: .* GB"):
        data_set(x, Y)


def test_other_data_has_another_fingerprint():
    mask = np.ones((240, 6), bool)
    mask[0, 0] = False
    variants = [
        data_set(X, Y),
        data_set(X, -Y),
        data_set(X[:, ::-1], Y),
        data_set(X, Y, mask),
        data_set(X, LABELS),
        data_set(X, LABELS, target="numbers"),
    ]
    assert len({data.fingerprint for data in variants}) == len(variants)


REFUSED = {
    "nan in x": ((with_value(X, np.nan), Y), "x holds nan"),
    "infinity in x": ((with_value(X, -np.inf), Y), "x holds -inf"),
    "nan in y": ((X, with_value(Y, np.nan)), "y holds nan"),
    "nan as a label": ((X, with_value(LABELS, np.nan), None, "labels"), "y holds nan"),
    "x of one axis": ((X[:, 0, 0], Y), "shape (240,)"),
    "x of four axes": ((X[None], Y), "shape (1, 240, 6, 2)"),
    "an empty x": ((X[:0], Y[:0]), "nothing in it"),
    "tokens of no numbers": ((X[..., :0], Y), "nothing in it"),
    "another number of targets": ((X, Y[:100]), "240 samples"),
    "y of three axes": ((X, X), "shape (240, 6, 2)"),
    "no outputs": ((X, np.zeros((240, 0))), "shape (240, 0)"),
    "a single number for y": ((X, 3.0), "shape ()"),
    "a constant target": ((X, np.full(240, 2.5)), "constant (2.5"),
    "one label": ((X, np.ones(240, int)), "label 1 alone"),
    "a label that occurs once": ((X, np.eye(240, dtype=int)[0]), "1 times"),
    "labels as many as samples": ((X, np.arange(240), None, "labels"), "240 labels"),
    "text as numbers": ((X, np.where(LABELS, "a", "b"), None, "numbers"), "text"),
    "text for tokens": ((np.full((240, 6), "a"), Y), "text"),
    "few samples": ((X[:199], Y[:199]), "199 samples"),
    "more than the memory": ((np.broadcast_to(X[:1, :, :1], (240, 6, 10**11)), Y), "GB"),
    "one token": ((X[:, :1], Y), "1 token"),
    "a constant x": ((np.ones((240, 6, 1)), Y), "constant (1.0)"),
    "one word": ((np.ones((240, 6), int), Y), "constant (1)"),
    "objects": ((np.full((240, 6), None), Y), "type object"),
    "complex numbers": ((X + 1j, Y), "type complex128"),
    "a mask of another shape": ((X, Y, np.ones((240, 5))), "shape (240, 5)"),
    "a mask of halves": ((X, Y, np.full((240, 6), 0.5)), "mask holds 0.5"),
    "a mask that hides a sequence": ((X, Y, np.arange(240)[:, None] != [[3] * 6]), "sample 3"),
    "a mask for a list": (([X[0], *X[1:, :5]], Y, np.ones((240, 6))), "lengths of their own"),
    "an empty sequence": (([X[0], X[1, :0], *X[2:]], Y), "sample 1"),
    "tokens of different sizes in one sequence": (([[[1.0, 2.0], [3.0]], *X[1:].tolist()], Y), "sample 0"),
    "tokens of different sizes in a list": (
        ([[*X[0, :5].tolist(), [3.0]], *X[1:].tolist()], Y),
        "differ in size",
    ),
    "a missing token": (([[None, *X[0, 1:].tolist()], *X[1:].tolist()], Y), "missing"),
    "a missing number": (([[1, None, 3]] * 240, Y), "such as None"),
    "words": (([["a", "b"][: 1 + place % 2] for place in range(240)], Y), "text"),
    "a number for a sequence": (([1.0, *X[1:].tolist()], Y), "no sequence in sample 0"),
    "an empty list": (([[], *X[1:].tolist()], Y), "no token in sample 0"),
    "a masked array": ((np.ma.masked_greater(X, 20), Y), "`mask`"),
    "a list of masked arrays": (([*np.ma.masked_greater(X, 20)], Y), "`mask`"),
    "masked targets": ((X, np.ma.masked_greater(Y, 20)), "leave those samples out"),
    "a mask that leaves one token": ((X, Y, np.arange(6) == np.zeros((240, 1))), "1 token"),
    "one sequence in every sample": ((X[:1].repeat(240, axis=0), Y), "one sequence alone"),
    "a target lost in rounding": ((X, 1e17 + Y), "no more than rounding"),
    "features lost in rounding": ((1e17 + X, Y), "no more than rounding"),
    "counts that look like labels": ((X, np.arange(240) % 7 * (np.arange(240) < 10)), "--target numbers"),
    "labels and something else": ((X, np.array(["a", None] * 120, dtype=object)), "such as None"),
    "tokens of different sizes": (([X[0], X[1, :5, :1], *X[2:]], Y), "one size"),
    "an unknown kind of target": ((X, Y, None, "guess"), "allowed are auto, numbers, labels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learnt_is_refused_in_one_line(name):
    (x, y, *more), told = REFUSED[name]
    mask, target = (*more, None, "auto")[:2] if len(more) < 2 else more
    with pytest.raises(InvalidInput) as refusal:
        data_set(x, y, mask, target=target or "auto")
    assert told in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("ragged", [False, True])
def test_files_hold_the_same_data_as_arrays(tmp_path, ragged):
    lengths = np.full(240, 6) if not ragged else RANDOM.integers(2, 7, size=240)
    lengths[0] = 6
    mask = np.arange(6) < lengths[:, None]
    expected = data_set(X, Y, mask).fingerprint
    np.savez(tmp_path / "data.npz", x=X, y=Y, mask=mask, more=np.ones(3))
    rows = [row[:length].tolist() for row, length in zip(X, lengths, strict=True)]
    pq.write_table(pa.table({"x": rows, "y": Y, "more": Y}), tmp_path / "data.parquet")
    assert load(tmp_path / "data.npz").fingerprint == expected
    assert load(str(tmp_path / "data.parquet")).fingerprint == expected


def test_files_that_cannot_be_used_are_refused_in_one_line(tmp_path):
    (tmp_path / "text.npz").write_text("x, y\n1, 2\n")
    (tmp_path / "text.parquet").write_text("x, y\n1, 2\n")
    (tmp_path / "data.csv").write_text("x, y\n1, 2\n")
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "empty.npz").write_bytes(b"")
    np.savez(tmp_path / "no_y.npz", x=X, z=Y)
    np.savez(tmp_path / "objects.npz", x=np.array([None, 1], dtype=object), y=Y)
    np.savez(tmp_path / "nan.npz", x=X, y=with_value(Y, np.nan))
    with (tmp_path / "array.npz").open("wb") as file:
        np.save(file, X)
    np.savez_compressed(tmp_path / "zeroed.npz", x=X, y=Y)
    content = bytearray((tmp_path / "zeroed.npz").read_bytes())
    content[200:3000] = bytes(2800)
    (tmp_path / "zeroed.npz").write_bytes(content)
    uneven, holed = X.tolist(), X.tolist()
    uneven[0][0], holed[0][0] = [1.0], None
    pq.write_table(pa.table({"x": uneven, "y": Y}), tmp_path / "uneven.parquet")
    pq.write_table(pa.table({"x": holed, "y": Y}), tmp_path / "holed.parquet")
    words = [["the", "cat"][: 1 + place % 2] for place in range(240)]
    pq.write_table(pa.table({"x": words, "y": Y}), tmp_path / "words.parquet")
    pq.write_table(pa.table({"tokens": [1, 2]}), tmp_path / "no_x.parquet")
    pq.write_table(pa.table({"x": [[1.0, 2.0], None], "y": [1.0, 2.0]}), tmp_path / "missing.parquet")
    told = {
        "nowhere.npz": "no such file",
        "text.npz": "no .npz",
        "text.parquet": "cannot be read as Parquet",
        "data.csv": "allowed is",
        "folder.npz": "folder",
        "empty.npz": "no .npz",
        "no_y.npz": "no 'y'; it holds x, z",
        "objects.npz": "objects",
        "nan.npz": "y holds nan",
        "array.npz": "no .npz",
        "no_x.parquet": "no 'x'; it holds tokens",
        "missing.parquet": "1 missing",
        "zeroed.npz": "cannot be read",
        "uneven.parquet": "differ in size",
        "holed.parquet": "missing",
        "words.parquet": "text",
    }
    for name, line in told.items():
        with pytest.raises(InvalidInput) as refusal:
            load(tmp_path / name)
        assert line in str(refusal.value), name
        assert name in str(refusal.value)
        assert "\n" not in str(refusal.value)
