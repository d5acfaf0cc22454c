"""What is said about how data was read: a line, and what of it was probably not meant."""

import numpy as np
import pytest
from small_data import IDS, LABELS, LENGTH, LONG, MASK, RANDOM, SAMPLES, X, Y

from headcount.data.arrays import data_set
from headcount.data.long_form import Columns, sequences_in
from headcount.data.named import parts_of

END = np.arange(LENGTH) == LENGTH - 1
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
    "a number for each token": (
        (X, X[..., 0]),
        "6 numbers each, as many as there are tokens; if each belongs",
    ),
    "an end that is constant": (
        (np.where(END[:, None], 0, X), Y),
        "100% of the sequences end with the token 0; if that is padding: padding=0",
    ),
    "ids with an end that is constant": (
        (np.where(np.arange(LENGTH) > 3, 0, IDS), Y),
        "100% of the sequences end with a run of the token 0",
    ),
    "one token of padding in most": (
        (np.where((END & (np.arange(SAMPLES) % 5 > 1)[:, None])[..., None], 0, X), Y),
        "60% of the sequences end with the token 0",
    ),
    "a mask of an unusual name": (
        parts_of({"x": X, "y": Y, "padding_mask": MASK}),
        'mask: padding_mask is not used; if it is true where there is a token: mask="padding_mask"',
    ),
    "a time that is a feature": (
        sequences_in(LONG, Columns("series"), y="y"),
        'features: t increases within every sequence; if it is the time of its tokens: time="t"',
    ),
    "an index that is a feature": (
        sequences_in(LONG.rename_axis(None).reset_index(names="Unnamed: 0"), Columns("series", "t"), y="y"),
        'features: Unnamed: 0 looks like the number of the row; if it is: features="a,b"',
    ),
    "a count of rows that is a feature": (
        sequences_in(LONG.assign(n=np.arange(len(LONG)) + 1), Columns("series", "t"), y="y"),
        "features: n looks like the number of the row",
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
    "a class token": (np.concatenate([np.full((SAMPLES, 1), 99), IDS], axis=1), Y),
    "a mask of nothing": (
        np.concatenate([IDS, np.zeros((SAMPLES, 2), int)], axis=1),
        Y,
        np.ones((SAMPLES, 8)),
    ),
    "as many outputs as tokens, few": (X[:, :3], X[:, :3, 0]),
    "features by name": sequences_in(LONG, Columns("series", features="t,a"), y="y"),
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
