"""How data was read, in a line, and what about it was probably not meant.

Options are worded as arguments in Python; the command line words them as its own.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Bool

from headcount.data.tokens import runs
from headcount.validation import listed

if TYPE_CHECKING:
    from headcount.data.arrays import DataSet

SHORT, MANY = 3, 1_000  # so many sequences of so few tokens are rather the rows of a longer table
MOST = 0.5  # of the sequences end with one token, which then may be padding
OFTEN = 0.25  # of them end with more than one of it
ALMOST_ALL = 0.9  # of the tokens equal to padding are padding
MAX_SHOWN = 5
MAX_LABELS = 20  # more distinct integers than this are a quantity


@dataclass(frozen=True)
class Origin:
    """What a source says about its data besides the data itself.

    - `features`: names of the numbers of a token.
    - `tokens`: names of the tokens, where all sequences have the same ones.
    - `unused`: names of what else is there.
    - `doubts`: what of it was probably not meant.
    - `inverted`: the name of a mask that was true where there is no token.
    """

    features: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    inverted: str = ""


def summary_of(data: "DataSet", y: np.ndarray, origin: Origin, *, target: str, tokens: str) -> str:
    """One line for a person who knows the data: is this what it is?"""
    lengths = [data.length] if data.mask is None else np.unique(data.mask.sum(axis=1)).tolist()
    length = f"{lengths[0]} to {lengths[-1]}" if len(lengths) > 1 else f"{lengths[0]}"
    tokens_named = f"{length} tokens{_in_brackets(origin.tokens)}"
    sequences = f"{len(data.x):,} sequences of {tokens_named}, {_kind(data, origin, tokens)}"
    hidden = "no mask" if data.mask is None else f"a mask hides {1 - data.mask.mean():.0%} of all tokens"
    inverted = f" ({origin.inverted}, true for padding)" if origin.inverted else ""
    unused = f"; not used: {listed(origin.unused)}" if origin.unused else ""
    return f"{sequences}; y: {_target(data, y, target)}; {hidden}{inverted}{unused}"


def doubts_of(
    values: np.ndarray, y: np.ndarray, data: "DataSet", *, masked: bool, target: str, tokens: str
) -> tuple[str, ...]:
    """What was probably not meant, and what to say if it was not; nothing that was asked for by name."""
    found = [
        _rows_for_sequences(data),
        "" if target != "auto" or data.classes else _labels_for_numbers(y, len(data.x) // 10),
        "" if target != "auto" else _targets_of_tokens(y, data),
        "" if tokens != "auto" or data.ids else _ids_for_numbers(values, data.mask),
        "" if masked else _padding_for_tokens(values),
    ]
    return tuple(filter(None, found))


def is_one_hot(y: np.ndarray) -> bool:
    """Whether every row has a single 1 and otherwise 0.

    >>> is_one_hot(np.eye(3)), is_one_hot(np.ones((3, 3)))
    (True, False)
    """
    if y.ndim != 2 or y.shape[1] < 2 or y.dtype.kind not in "biuf":
        return False
    return bool(np.isin(y, (0, 1)).all() and (y.sum(axis=1) == 1).all())


def _kind(data: "DataSet", origin: Origin, tokens: str) -> str:
    named = _in_brackets(origin.features)
    if data.ids:
        hint = ' (if they are quantities: tokens="numbers")' if tokens == "auto" else ""
        return f"each one of {data.ids:,} ids{named}{hint}"
    return f"{data.token_dim:,} number{'s' * (data.token_dim > 1)} each{named}"


def _in_brackets(names: tuple[str, ...]) -> str:
    return f" ({listed(names)})" if names else ""


def _target(data: "DataSet", y: np.ndarray, target: str) -> str:
    if data.classes:
        counts = np.bincount(data.y)
        each = [f"{name} ({count:,})" for name, count in zip(data.classes, counts, strict=True)]
        named = ", ".join(each[:MAX_SHOWN]) + ", …" * (len(each) > MAX_SHOWN)
        guessed = target == "auto" and y.dtype.kind in "iu"
        hint = ' (if they are numbers: target="numbers")' if guessed else ""
        return f"{len(each)} labels, {named}{hint}"
    outputs = data.y.shape[1]
    text = "numbers" if outputs == 1 else f"{outputs} numbers each"
    possible = outputs == 1 and len(np.unique(y)) <= len(y) // 10
    return f'{text} (if they are labels: target="labels")' if target == "auto" and possible else text


def _rows_for_sequences(data: "DataSet") -> str:
    length = data.length if data.mask is None else int(data.mask.sum(axis=1).max())
    if length > SHORT or len(data.x) < MANY:
        return ""
    return (
        f"x: {len(data.x):,} sequences of only {length} tokens: if a row is one token of a longer sequence, "
        'group the rows first (in a table: id="COLUMN" with the column that tells sequences apart)'
    )


def _labels_for_numbers(y: np.ndarray, max_labels: int) -> str:
    if is_one_hot(y):
        return f'y: one-hot codes are read as {y.shape[1]} numbers each; if they are labels: target="labels"'
    if y.dtype.kind != "f" or y.size != len(y) or not _whole(y):
        return ""
    distinct = np.unique(y)
    if len(distinct) > min(max_labels, MAX_LABELS):
        return ""
    named = ", ".join(f"{value:g}" for value in distinct[:MAX_SHOWN]) + ", …" * (len(distinct) > MAX_SHOWN)
    found = f"y: {len(distinct)} whole numbers ({named}) are read as numbers"
    return f'{found}; if they are labels: target="labels"'


def _targets_of_tokens(y: np.ndarray, data: "DataSet") -> str:
    if data.length <= SHORT or y.ndim != 2 or y.shape[1] != data.length or is_one_hot(y):
        return ""
    return (
        f"y: {y.shape[1]:,} numbers each, as many as there are tokens; if each belongs to a token: headcount "
        "estimates one target per sequence, not one per token"
    )


def _ids_for_numbers(values: np.ndarray, mask: np.ndarray | None) -> str:
    if values.dtype.kind != "f" or values[0, 0].size != 1:
        return ""
    seen = values if mask is None else values[mask]
    if not _whole(seen):
        return ""
    distinct = len(np.unique(seen))
    if distinct <= 2:  # as ids they are the same sequences
        return ""
    return f'x: {distinct:,} whole numbers are read as quantities; if they are ids of tokens: tokens="ids"'


def _padding_for_tokens(values: np.ndarray) -> str:
    """A token that many sequences end with, or some start with, and that is rare elsewhere."""
    tokens = values.reshape(*values.shape[:2], -1)
    for at, edge in (("end", tokens[:, -1]), ("start", tokens[:, 0])):
        kinds, counts = np.unique(edge, axis=0, return_counts=True)
        share, token = counts.max() / len(tokens), kinds[counts.argmax()]
        same: Bool[np.ndarray, "sample token"] = (tokens == token).all(axis=2)
        run = runs(same, at=at).sum(axis=1)
        often = share >= MOST or (share >= OFTEN and run.max() > 1)
        as_class_token = at == "start" and len(np.unique(run)) < 2
        as_end_of_text = values.dtype.kind in "iu" and (run == 1).all()
        if not often or as_class_token or as_end_of_text or run.sum() < ALMOST_ALL * same.sum():
            continue
        value = f"{token[0]:g}" if (token == token[0]).all() else ""
        how = f"padding={value}" if value else "pass `mask`"
        named = value or ", ".join(f"{number:g}" for number in token[:MAX_SHOWN])
        what = f"{'a run of ' if run.max() > 1 else ''}the token {named}"
        return f"x: {share:.0%} of the sequences {at} with {what}; if that is padding: {how}"
    return ""


def _whole(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).all() and (values == np.round(values)).all())
