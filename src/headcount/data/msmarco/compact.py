"""Finished lists in one file of arrays, `msmarco_tokens.npz`."""

from pathlib import Path

import numpy as np

from headcount.data.msmarco.rankings import Lists, Rankings, shared
from headcount.data.msmarco.source import SITE, Options, refused
from headcount.data.msmarco.texts import Texts
from headcount.data.npz import arrays_in
from headcount.errors import InvalidInput

FILE = "msmarco_tokens.npz"
ARRAYS = {"p_tok": 1, "p_off": 1, "q_tok": 1, "q_off": 1, "cand": 2, "label": 1, "bm25": 2, "split": 1,
          "split_names": 1, "list_q": 1}  # fmt: skip
TRAINERS = {"split_names": ("U", "text"), "bm25": ("fiu", "numbers")}  # and whole numbers everywhere else


def compact(path: Path, options: Options) -> Rankings:
    """The lists in the file.

    Training lists with a text that validation has too, under another number, are left out.
    """
    if options.negatives != "bm25":
        raise refused(
            path,
            f"its negatives are BM25's, not {options.negatives!r}",
            "negatives='bm25' or the official files",
        )
    parts = _arrays(path)
    width = parts["cand"].shape[1]
    if width < options.length:
        found = f"its lists have {width} candidates each, too few for length = {options.length}"
        raise refused(path, found, f"{options.length} or more, or a smaller length")
    passages, queries = Texts(parts["p_tok"], parts["p_off"]), Texts(parts["q_tok"], parts["q_off"])
    train = _lists(path, parts, "train", options.seed)
    validation = _drawn(_lists(path, parts, options.validation, options.seed), options.validation_queries)
    alike, alike_queries = passages.first_alike(), queries.first_alike()
    in_both = shared(alike, train.passages, validation.passages)
    asked_in_both = shared(alike_queries, train.query, validation.query)
    clean = ~(
        np.isin(alike[train.passages], in_both).any(axis=1)
        | np.isin(alike_queries[train.query], asked_in_both)
    )
    if not clean.any():
        found = f"each of its {len(train)} training lists has a text that {options.validation} has too"
        raise refused(path, found, "splits with texts of their own")
    kept = _drawn(train.take(clean), options.train_queries)
    try:
        return Rankings(
            name=str(path),
            passages=passages,
            queries=queries,
            train=kept.at(options.length),
            validation=validation.at(options.length),
            left_out=int((~clean).sum()),
        )
    except InvalidInput as problem:
        raise InvalidInput(f"{problem}; the data are at {SITE}") from None


def _arrays(path: Path) -> dict[str, np.ndarray]:
    expected = f"an .npz with the arrays {', '.join(ARRAYS)}"
    parts = arrays_in(path, ARRAYS)
    if parts is None:
        raise refused(path, "is damaged, cut short or no .npz", expected)
    for name, axes in ARRAYS.items():
        if name not in parts:
            raise refused(path, f"has no {name!r}", expected)
        if parts[name].ndim != axes:
            raise refused(path, f"{name} has the shape {parts[name].shape}", f"an array with {axes} axes")
        kinds, what = TRAINERS.get(name, ("iu", "whole numbers"))
        if parts[name].dtype.kind not in kinds:
            raise refused(path, f"{name} is of type {parts[name].dtype}", what)
    if not np.isfinite(parts["bm25"]).all():
        raise refused(path, "bm25 holds more than finite numbers", "a finite score for each candidate")
    for tokens, offsets in (("p_tok", "p_off"), ("q_tok", "q_off")):
        ends = parts[offsets].astype(np.int64)
        if not (len(ends) > 1 and ends[0] == 0 and (np.diff(ends) >= 0).all()):
            raise refused(path, f"{offsets} does not rise from 0", "the start of each text and the last end")
        if ends[-1] != len(parts[tokens]):
            raise refused(path, f"{tokens} has {len(parts[tokens])} tokens", f"{ends[-1]}, as {offsets} says")
        if parts[tokens].min(initial=0) < 0:
            raise refused(path, f"{tokens} has the token {parts[tokens].min()}", "numbers from 0 up")
    lists = len(parts["cand"])
    for name in ("label", "list_q", "bm25"):
        if len(parts[name]) != lists:
            raise refused(path, f"{name} has {len(parts[name])} rows", f"{lists}, one for each list")
    if parts["bm25"].shape != parts["cand"].shape:
        raise refused(
            path, f"bm25 has the shape {parts['bm25'].shape}", f"that of cand, {parts['cand'].shape}"
        )
    if len(parts["split"]) != len(parts["q_off"]) - 1:
        raise refused(
            path, f"split has {len(parts['split'])} rows", f"{len(parts['q_off']) - 1}, one a query"
        )
    if not ((parts["list_q"] >= 0) & (parts["list_q"] < len(parts["split"]))).all():
        raise refused(path, "list_q names a query that is not there", f"0 to {len(parts['split']) - 1}")
    unnamed = parts["split"][(parts["split"] < 0) | (parts["split"] >= len(parts["split_names"]))]
    if len(unnamed):
        expected = f"0 to {len(parts['split_names']) - 1}, the places in split_names"
        raise refused(path, f"split has {unnamed[0]}", expected)
    return parts


def _lists(path: Path, parts: dict[str, np.ndarray], split: str, seed: int) -> Lists:
    names = [str(name) for name in parts["split_names"]]
    if split not in names:
        raise refused(path, f"has no split {split!r}, only {', '.join(names)}", "train, heldout or dev")
    rows = np.flatnonzero(parts["split"][parts["list_q"]] == names.index(split))
    if not len(rows):
        raise refused(path, f"the split {split!r} has no lists", "one or more")
    query, label = parts["list_q"][rows].astype(np.int64), parts["label"][rows].astype(np.int64)
    candidates, scores = parts["cand"][rows].astype(np.int64), parts["bm25"][rows].astype(np.float32)
    width = candidates.shape[1]
    missing = np.flatnonzero((label < 0) | (label >= width))
    if len(missing):
        found = f"query {query[missing[0]]} has its positive at place {label[missing[0]]}"
        raise refused(path, found, f"a place from 0 to {width - 1}")
    unknown = np.flatnonzero(((candidates < 0) | (candidates >= len(parts["p_off"]) - 1)).any(axis=1))
    if len(unknown):
        found = f"query {query[unknown[0]]} has a candidate that is no passage"
        raise refused(path, found, f"a number from 0 to {len(parts['p_off']) - 2}")
    ordered = np.sort(candidates, axis=1)
    twice = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
    if len(twice):
        raise refused(path, f"query {query[twice[0]]} has a candidate twice", "each once")
    is_positive = np.arange(width) == label[:, None]
    order = np.argsort(np.where(is_positive, -np.inf, -scores), axis=1, kind="stable")
    ordered = np.take_along_axis(candidates, order, axis=1)
    return Lists(query, positive=ordered[:, 0], negatives=ordered[:, 1:], seed=seed)


def _drawn(lists: Lists, count: int | None) -> Lists:
    if count is None or count >= len(lists):
        return lists
    rows = np.random.default_rng(lists.seed).choice(len(lists), count, replace=False)
    return lists.take(np.sort(rows))
