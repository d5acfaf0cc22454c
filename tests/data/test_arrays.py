"""A user's arrays and files: what is accepted, and what is refused in one line."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from headcount.data import tokens as tokens_module
from headcount.data.arrays import data_set
from headcount.errors import InvalidInput

RANDOM = np.random.default_rng(0)
X = 3 + 10 * RANDOM.normal(size=(240, 6, 2))
Y = X.max(axis=1).sum(axis=1)
LABELS = (np.median(Y) < Y).astype(int)


def with_value(array, value):
    changed = np.array(array, dtype=float)
    changed.flat[7] = value
    return changed


def test_features_are_standardised_over_the_tokens_that_are_present():
    mask = RANDOM.random((240, 6)) < 0.7
    mask[:, 0] = True
    hidden = np.where(mask[..., None], X, 1e9)
    data = data_set(hidden, Y, mask)
    np.testing.assert_allclose(data.x[mask].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(data.x[mask].std(axis=0), 1, rtol=1e-6)
    assert not data.x[~mask].any()
    assert data.fingerprint == data_set(np.where(mask[..., None], X, np.nan), Y, mask).fingerprint


@pytest.mark.parametrize("sizes", [(1e-15, 1e6), (1e300, 1e-300)])
def test_a_feature_of_any_size_is_standardised(sizes):
    np.testing.assert_allclose(data_set(X * sizes, Y).x, data_set(X, Y).x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("size", "shift"), [(1e-200, 0), (1e300, 0), (1, 1e13)])
def test_targets_of_any_size_can_be_learnt(size, shift):
    data = data_set(X, size * Y + shift)
    np.testing.assert_allclose(data.y[:, 0], (Y - Y.mean()) / Y.std(), rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(data_set(X, Y).y[:, 0], Y)


def test_a_long_constant_column_is_constant_to_the_last_digit_and_left_out_of_the_scale():
    x = np.full((50_000, 4, 2), 0.1)
    x[..., 0] = np.random.default_rng(1).normal(size=(50_000, 4))
    assert not data_set(x, x[:, 0, 0]).x[..., 1].any()
    with pytest.raises(InvalidInput, match="constant"):
        data_set(x, np.full((50_000, 2), 0.1))


class Tensor:
    """As in PyTorch: with a gradient and on a device, so its array must be asked for in steps."""

    def __init__(self, array, *, dtype="torch.float32", steps=()):
        self.array, self.dtype, self.steps = array, dtype, steps

    def __len__(self):
        return len(self.array)

    def detach(self):
        return Tensor(self.array, dtype=self.dtype, steps=(*self.steps, "detach"))

    def cpu(self):
        return Tensor(self.array, dtype=self.dtype, steps=(*self.steps, "cpu"))

    def float(self):
        return Tensor(self.array, steps=self.steps)

    def __array__(self, dtype=None, copy=None):
        assert self.steps == ("detach", "cpu") and self.dtype == "torch.float32"
        return self.array


LIBRARIES = {
    "JAX": jnp.asarray,
    "PyTorch": Tensor,
    "PyTorch in bfloat16": lambda array: Tensor(array, dtype="torch.bfloat16"),
    "a list of tensors": lambda array: [Tensor(row) for row in array] if array.ndim > 1 else Tensor(array),
    "lists": lambda array: array.tolist(),
    "a Series of arrays": lambda array: pd.Series(list(array), index=np.arange(len(array))[::-1]),
    "a DataFrame with a column of sequences": lambda array: pd.DataFrame({"x": array.tolist()}),
    "a DataFrame of tokens": lambda array: pd.DataFrame(array.tolist()),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_arrays_of_other_libraries_are_the_same_data(library):
    convert, x, y = LIBRARIES[library], X.astype(np.float16).astype(np.float32), Y.astype(np.float32)
    assert data_set(convert(x), convert(y)).fingerprint == data_set(x, y).fingerprint


def test_a_data_frame_is_samples_by_length_and_integers_are_tokens():
    tokens = RANDOM.integers(5, size=(240, 6))
    expected = data_set(tokens, Y).fingerprint
    assert data_set(pd.DataFrame(tokens), pd.DataFrame({"y": Y})).fingerprint == expected
    assert data_set(pd.DataFrame(tokens, dtype="Int64"), pd.Series(Y, dtype=object)).fingerprint == expected
    brain = jnp.asarray(X, jnp.bfloat16)
    assert data_set(brain, Y).fingerprint == data_set(brain.astype(jnp.float32), Y).fingerprint


@pytest.mark.parametrize("convert", [list, lambda rows: [Tensor(row) for row in rows], pd.Series])
def test_sequences_of_different_lengths_are_padded_and_masked(convert):
    lengths = RANDOM.integers(2, 7, size=240)
    lengths[0] = 6
    data = data_set(convert([row[:length] for row, length in zip(X, lengths, strict=True)]), Y)
    np.testing.assert_array_equal(data.mask.sum(axis=1), lengths)
    assert data.fingerprint == data_set(X, Y, np.arange(6) < lengths[:, None]).fingerprint


@pytest.mark.parametrize(("vocabulary", "size"), [(5, 5), (2000, 64)])
def test_integer_tokens_get_codes_that_distinguish_them(vocabulary, size):
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
        (np.where(LABELS, "cat", "dog").tolist(), "auto", ("cat", "dog")),
        (np.where(LABELS, "cat", "dog").astype(np.dtypes.StringDType()), "auto", ("cat", "dog")),
        (pd.Series(np.where(LABELS, "cat", "dog")).astype("category"), "auto", ("cat", "dog")),
        (pd.Series(LABELS.astype(bool)).astype("boolean"), "auto", ("False", "True")),
        (LABELS, "numbers", ()),
        (np.arange(240), "auto", ()),
        (LABELS.astype(float), "labels", ("0.0", "1.0")),
        (np.stack([LABELS, LABELS], axis=1), "auto", ()),
    ],
)
def test_labels_are_distinguished_from_numbers(y, target, classes):
    data = data_set(X, y, target=target)
    assert data.classes == classes
    assert data.targets.shape == (240, data.output_dim)
    if classes:
        np.testing.assert_array_equal(
            np.array(classes)[data.targets.argmax(axis=1)], [str(entry) for entry in np.asarray(y).tolist()]
        )


@pytest.mark.parametrize("x", [X, RANDOM.integers(2000, size=(240, 6))])
def test_tokens_that_memory_cannot_hold_are_refused_before_they_are_made(x, monkeypatch):
    monkeypatch.setattr(tokens_module, "COPIES", 10**12)
    with pytest.raises(InvalidInput, match=r"240 samples of 6 tokens of (2|64) numbers need .* GB"):
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
    "infinity in x": ((with_value(X, -np.inf), Y), "x: expected finite numbers, got -inf"),
    "nan in x": ((with_value(X, np.nan), Y), "got nan at sample 0, token 3, feature 1 (counted from 0)"),
    "nan in y": ((X, with_value(Y, np.nan)), "y: expected finite numbers, got nan at sample 7"),
    "nan as a label": ((X, with_value(LABELS, np.nan), None, "labels"), "y: expected finite labels, got nan"),
    "x of one axis": ((X[:, 0, 0], Y), "[samples, length], got the shape (240,)"),
    "an empty x": ((X[:0], Y[:0]), "x: expected at least one value, got the shape (0, 6, 2)"),
    "another number of targets": ((X, Y[:100]), "y: expected 240 entries, one per sample"),
    "a single number for y": ((X, 3.0), "got the shape ()"),
    "y of three axes": ((X, X), "[samples, outputs], got the shape (240, 6, 2)"),
    "no outputs": ((X, np.zeros((240, 0))), "y: expected at least one output, got the shape (240, 0)"),
    "a constant target": ((X, np.full(240, 2.5)), "y is constant (2.5"),
    "a target lost in rounding": ((X, 1e17 + Y), "y varies only by rounding"),
    "one label": ((X, np.ones(240, int)), "y: expected at least two labels, got only 1"),
    "a label that occurs once": (
        (X, np.eye(240, dtype=int)[0]),
        "every label at least 3 times, got label 1 once",
    ),
    "counts that look like labels": ((X, np.arange(240) % 7 * (np.arange(240) < 10)), 'target="numbers"'),
    "labels of two columns": ((X, np.stack([LABELS, LABELS], 1), None, "labels"), "one label per sample"),
    "labels as many as samples": (
        (X, np.arange(240), None, "labels"),
        "at most 24 different labels for 240 samples, got 240",
    ),
    "labels and nan in a list": ((X, ["a", float("nan")] * 120), "such as nan"),
    "bools and a missing one": ((X, pd.Series([True, None] * 120, dtype="boolean")), "such as <NA>"),
    "text as numbers": ((X, np.where(LABELS, "a", "b"), None, "numbers"), "y: expected numbers, as target="),
    "text for tokens": ((np.full((240, 6), "a"), Y), "[samples, length], got text"),
    "words": (([["a", "b"][: 1 + place % 2] for place in range(240)], Y), "[samples, length], got text"),
    "few samples": ((X[:199], Y[:199]), "x: expected at least 200 samples, got 199"),
    "one token": ((X[:, :1], Y), "x: expected sequences of at least 2 tokens, got 1 token"),
    "a mask that leaves one token": ((X, Y, np.arange(6) == np.zeros((240, 1))), "got 1 token"),
    "a constant x": ((np.ones((240, 6, 1)), Y), "x is constant (1.0)"),
    "features lost in rounding": ((1e17 + X, Y), "x varies only by rounding"),
    "one word": ((np.ones((240, 6), int), Y), "x is constant (1)"),
    "one sequence in every sample": ((X[:1].repeat(240, axis=0), Y), "every sample is the same sequence"),
    "complex numbers": ((X + 1j, Y), "got values of type complex128"),
    "a mask of another shape": ((X, Y, np.ones((240, 5))), "mask: expected the shape (240, 6), got (240, 5)"),
    "a mask of halves": ((X, Y, np.full((240, 6), 0.5)), "mask: expected bools, or 0 and 1, got 0.5"),
    "a mask that hides a sequence": ((X, Y, np.arange(240)[:, None] != [[3] * 6]), "got none in sample 3"),
    "a mask for a list": (([X[0], *X[1:, :5]], Y, np.ones((240, 6))), "mask: expected none for sequences"),
    "an empty sequence": (([X[0], X[1, :0], *X[2:]], Y), "a token in every sample, got none in sample 1"),
    "tokens of no numbers": (([[[]] * 2, *[[[]] * 3] * 239], Y), "x: expected at least one number per token"),
    "tokens of different sizes": (([X[0], X[1, :5, :1], *X[2:]], Y), "tokens that differ in size"),
    "rows of different sizes": (([[*X[0, :5].tolist(), [3.0]], *X[1:].tolist()], Y), "differ in size"),
    "a missing token": (([[None, *X[0, 1:].tolist()], *X[1:].tolist()], Y), "missing"),
    "a missing number": (([[1, None, 3]] * 240, Y), "such as None"),
    "a number for a sequence": (([1.0, *X[1:].tolist()], Y), "got a single value in sample 0"),
    "a masked array": ((np.ma.masked_greater(X, 20), Y), "x: expected no masked values"),
    "masked arrays in a list": (([*np.ma.masked_greater(X, 20)], Y), "`mask`"),
    "masked targets": ((X, np.ma.masked_greater(Y, 20)), "leave those samples out"),
    "an unknown target type": ((X, Y, None, "guess"), "target: expected one of auto, numbers, labels"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learnt_is_refused_in_one_line(name):
    (x, y, *more), words = REFUSED[name]
    mask, target = (*more, *(None, "auto")[len(more) :])
    with pytest.raises(InvalidInput) as refusal:
        data_set(x, y, mask, target=target)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
