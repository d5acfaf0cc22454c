"""Files of MS MARCO that are damaged, missing or inconsistent: each is named in one line."""

import errno
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_msmarco import Tiny

from headcount.data.msmarco.embeddings import SOURCE
from headcount.data.msmarco.loading import load
from headcount.data.msmarco.source import SITE, Options
from headcount.errors import InvalidInput

OPTIONS = {"train_queries": 12, "validation_queries": 6, "length": 5}
ALL = {"train_queries": 40, "validation_queries": 10}
ANSWER = Tiny(1).relevant["q3"][0]
QUERIES, QRELS, RUN, COLLECTION = "queries.train.tsv", "qrels.train.tsv", "run.train.tsv", "collection.tsv"
Spoil = Callable[[Path], object]


def put(name: str, line: str, *, at: int = 3) -> Spoil:
    """Puts a line into a file, as line `at`."""

    def spoil(folder: Path) -> None:
        lines = (folder / name).read_text().split("\n")
        (folder / name).write_text("\n".join([*lines[: at - 1], line, *lines[at - 1 :]]))

    return spoil


def replaced(name: str, content: str | bytes) -> Spoil:
    written = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(written)


def removed(*names: str) -> Spoil:
    return lambda folder: [(folder / name).unlink() for name in names]


def run_folder(folder: Path) -> None:
    (folder / RUN).rename(folder / "other.tsv")
    (folder / RUN).mkdir()


def truncated(folder: Path) -> None:
    packed = gzip.compress((folder / COLLECTION).read_bytes())
    (folder / COLLECTION).rename(folder / f"{COLLECTION}.gz").write_bytes(packed[: len(packed) // 2])


REFUSED: dict[str, tuple[Spoil, str, dict[str, object]]] = {
    "no queries": (removed(QUERIES), "has no queries.train.tsv and no queries.train.tsv.gz", {}),
    "no collection": (removed(COLLECTION), "has no collection.tsv; expected a folder with", {}),
    "no development set": (removed(), "has no queries.dev.tsv", {"validation": "dev"}),
    "a passage with a tab": (put(COLLECTION, "p999\tone\ttwo"), f"{COLLECTION}: line 3 has 3 columns", {}),
    "a blank line": (put(QUERIES, "", at=5), f"{QUERIES}: line 5 has 1 columns; expected 2", {}),
    "an unknown query": (put(QRELS, "q77 0 p1 1"), "line 3 names query q77; expected one that queries", {}),
    "no answers": (replaced(QRELS, "q1 0 p1 0\n"), f"{QRELS}: no query has a positive", {}),
    "a grade with a point": (
        put(QRELS, "q1 0 p1 0.0"),
        "line 3 has the grade '0.0'; expected an integer",
        {},
    ),
    "a query twice": (put(QUERIES, "q0\tw9 w8"), "line 3 has query q0 again, with another text", {}),
    "a passage twice": (put(COLLECTION, f"{ANSWER}\tw9 w8 w7"), f"has passage {ANSWER} twice, with diff", {}),
    "a collection cut after a line": (replaced(COLLECTION, "p0\tw1 w2\n"), "has 1 passages and lacks p", {}),
    "a judged passage that is lacking": (
        put(QRELS, "q7 0 p777 1"),
        f"has 90 passages and lacks p777, which {{folder}}/{QRELS} names for query q7",
        ALL,
    ),
    "a listed passage that is lacking": (put(RUN, "q7\tp777\t1"), f"/{RUN} names for query q7", ALL),
    "blank queries": (
        replaced(QUERIES, "".join(f"q{number}\t \n" for number in range(24))),
        f"{QRELS}: names 24 queries, all of them blank",
        {},
    ),
    "a query alone": (
        replaced(QRELS, "q3 0 p1 1\n"),
        f"{QRELS}: has only one usable query; expected two",
        {},
    ),
    "one query under many names": (
        replaced(QUERIES, "".join(f"q{number}\tw1 w2\n" for number in range(24))),
        "training queries has the words or an answer of a validation query",
        {},
    ),
    "a run of 5 columns": (put(RUN, "q1 p1 1 2 3", at=1), f"{RUN}: line 1 has 5 columns", {}),
    "a rank below 0": (put(RUN, "q1\tp1\t-1"), f"{RUN}: line 3 has the rank '-1'; expected an integer", {}),
    "a rank without end": (put(RUN, "q1\tp1\t" + 5000 * "9"), "line 3 has the rank '9999", {}),
    "a run of an unknown query": (put(RUN, "q77\tp1\t1"), f"{RUN}: line 3 names query q77", {}),
    "a run of an unjudged query": (replaced(RUN, "q99\tp1\t1\n"), f"{RUN}: has no query that", {}),
    "two runs": (replaced("top1000.train.tsv", "q1\tp1\t1\n"), "has 2 run files for train", {}),
    "a run that is a folder": (run_folder, f"{RUN}: is not a file; expected a run", {}),
    "few hits": (removed(), f"{RUN}: none of 12 queries has 63 negatives", {"length": 64}),
    "few passages": (removed(RUN), f"{QRELS}: none of 12 queries has 63 negatives", {"length": 64}),
    "a truncated .gz": (truncated, "tsv.gz: the .gz is truncated or damaged", {}),
    "bytes": (replaced(COLLECTION, b"p0\t\xff\xfe\n"), f"{COLLECTION}: is not text; expected UTF-8", {}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_spoilt_files_are_refused_in_one_line(tmp_path, case):
    spoil, problem, options = REFUSED[case]
    tiny = Tiny(1)
    tiny.queries["q99"], tiny.relevant["q99"], tiny.run["q99"] = "w1", [], []
    tiny.write(tmp_path, run="ranked")
    spoil(tmp_path)
    with pytest.raises(InvalidInput) as refusal:
        load(tmp_path, Options(**(OPTIONS | options)))
    message = str(refusal.value)
    assert problem.format(folder=tmp_path) in message
    assert message.startswith(str(tmp_path))
    assert message.endswith(f"MS MARCO is at {SITE}")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("opener", "name", "line"),
    [
        ((Path, "open"), QUERIES, f"{QUERIES}: cannot be read: Input/output error; .*https://"),
        ((gzip, "open"), f"{QUERIES}.gz", f"{QUERIES}.gz: cannot be read: Input/output error; .*https://"),
        ((Path, "iterdir"), "", "cannot be read: Input/output error; .*https://"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, monkeypatch, opener, name, line):
    Tiny(1).write(tmp_path, packed=name.endswith(".gz"))

    def broken(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(*opener, broken)
    with pytest.raises(InvalidInput, match=line):
        load(tmp_path, Options(**OPTIONS))


def test_missing_folders_vectors_and_vocabularies_are_refused(tmp_path):
    Tiny(1).write(tmp_path)
    for name, problem in (("none", "no such folder"), ("vocab.txt", "is not a folder")):
        with pytest.raises(InvalidInput, match=rf"{name}: {problem}; .*collection.tsv.*https"):
            load(tmp_path / name)
    (tmp_path / "bert_embeddings.npz").unlink()
    with pytest.raises(InvalidInput, match=rf"bert_embeddings.npz: no such file.*{SOURCE}$"):
        load(tmp_path, Options(**OPTIONS, negatives="dense"))
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(InvalidInput, match=rf"vocab.txt: cannot be read: No such file.*{SOURCE}$"):
        load(tmp_path, Options(**OPTIONS))


@pytest.mark.parametrize(
    ("option", "value"),
    [("validation", "test"), ("negatives", "random"), ("train_queries", 0), ("length", 1), ("pool", -1)],
)
def test_options_that_are_not_possible_are_refused(option, value):
    with pytest.raises(InvalidInput, match=rf"{option}: expected .*, got {value!r}"):
        Options(**{option: value})
