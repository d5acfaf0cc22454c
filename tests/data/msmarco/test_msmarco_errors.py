"""Files of MS MARCO that are damaged, missing or inconsistent: each is named in one line."""

import errno
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_msmarco import Tiny

from headcount.data.msmarco.embeddings import SOURCE
from headcount.data.msmarco.loading import load
from headcount.data.msmarco.source import Options
from headcount.errors import InvalidInput

OPTIONS = {"train_queries": 12, "validation_queries": 6, "length": 5}
ANSWER = Tiny(1).relevant["q3"][0]


def put(name: str, line: str, *, at: int = 3) -> Callable[[Path], None]:
    """Puts a line into a file, as line `at`."""

    def spoil(folder: Path) -> None:
        lines = (folder / name).read_text().split("\n")
        (folder / name).write_text("\n".join([*lines[: at - 1], line, *lines[at - 1 :]]))

    return spoil


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def replaced(name: str, content: str | bytes) -> Callable[[Path], None]:
    written = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(written)


def zipped(content: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / "collection.tsv"
        (folder / "collection.tsv.gz").write_bytes(content(gzip.compress(path.read_bytes())))
        path.unlink()

    return spoil


def folder_for(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return spoil


QUERIES, QRELS, RUN, COLLECTION = "queries.train.tsv", "qrels.train.tsv", "run.train.tsv", "collection.tsv"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no queries": (removed(QUERIES), "has no queries.train.tsv and no queries.train.tsv.gz"),
    "no collection": (removed(COLLECTION), "has no collection.tsv; expected a folder with"),
    "a passage with a tab": (put(COLLECTION, "p999\tone\ttwo"), f"{COLLECTION}: line 3 has 3 columns"),
    "a blank line": (put(QUERIES, "", at=5), f"{QUERIES}: line 5 has 1 columns; expected 2"),
    "an unknown query": (put(QRELS, "q77 0 p1 1"), "line 3 names query q77; expected one that queries"),
    "no answers": (replaced(QRELS, "q1 0 p1 0\n"), f"{QRELS}: no query has a positive"),
    "a grade with a point": (
        put(QRELS, "q1 0 p1 0.0"),
        f"{QRELS}: line 3 has the grade '0.0'; expected an integer",
    ),
    "a query twice": (
        put(QUERIES, "q0\tw9 w8 w7"),
        f"{QUERIES}: line 3 has query q0 again, with another text; expected each once",
    ),
    "a passage twice": (
        put(COLLECTION, f"{ANSWER}\tw9 w8 w7"),
        f"{COLLECTION}: has passage {ANSWER} twice, with different texts; expected each once",
    ),
    "a collection cut after a line": (replaced(COLLECTION, "p0\tw1 w2\n"), "has 1 passages and lacks p"),
    "blank queries": (
        replaced(QUERIES, "".join(f"q{number}\t \n" for number in range(24))),
        f"{QRELS}: names 24 queries, and all of them are blank",
    ),
    "a query alone": (replaced(QRELS, "q3 0 p1 1\n"), f"{QRELS}: has only one usable query; expected two or"),
    "one query under many names": (
        replaced(QUERIES, "".join(f"q{number}\tw1 w2\n" for number in range(24))),
        "training queries has the words or an answer of a validation query",
    ),
    "a run of 5 columns": (put(RUN, "q1 p1 1 2 3", at=1), f"{RUN}: line 1 has 5 columns"),
    "a rank below 0": (put(RUN, "q1\tp1\t-1"), f"{RUN}: line 3 has the rank '-1'; expected an integer >= 0"),
    "a rank without end": (put(RUN, "q1\tp1\t" + 5000 * "9"), "line 3 has the rank '9999"),
    "a run of an unknown query": (put(RUN, "q77\tp1\t1"), f"{RUN}: line 3 names query q77"),
    "a run of an unjudged query": (replaced(RUN, "q99\tp1\t1\n"), f"{RUN}: has no query that"),
    "two runs": (replaced("top1000.train.tsv", "q1\tp1\t1\n"), "has 2 run files for train"),
    "an empty run": (replaced(RUN, ""), f"{RUN}: line 1 has 0 columns"),
    "a run that is a folder": (folder_for(RUN), f"{RUN}: is not a file; expected a run"),
    "a truncated .gz": (zipped(lambda packed: packed[: len(packed) // 2]), "tsv.gz: the .gz is truncated"),
    "a damaged .gz": (zipped(lambda packed: b"no gzip"), "tsv.gz: the .gz is truncated or damaged"),
    "bytes": (replaced(COLLECTION, b"p0\t\xff\xfe\n"), f"{COLLECTION}: is not text; expected UTF-8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_spoilt_files_are_refused_in_one_line(tmp_path, case):
    spoil, problem = REFUSED[case]
    tiny = Tiny(1)
    tiny.queries["q99"], tiny.relevant["q99"], tiny.run["q99"] = "w1", [], []
    tiny.write(tmp_path, run="ranked")
    spoil(tmp_path)
    with pytest.raises(InvalidInput) as refusal:
        load(tmp_path, Options(**OPTIONS))
    message = str(refusal.value)
    assert problem in message
    assert message.startswith(str(tmp_path))
    assert message.endswith("MS MARCO is at https://microsoft.github.io/msmarco/")
    assert "\n" not in message


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_that_cannot_be_read_is_named(tmp_path, monkeypatch, packed):
    Tiny(1).write(tmp_path, packed=packed)

    def broken(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(gzip if packed else Path, "open", broken)
    name = "queries.train.tsv.gz" if packed else "queries.train.tsv"
    with pytest.raises(InvalidInput, match=rf"{name}: cannot be read: Input/output error; .*https://"):
        load(tmp_path, Options(**OPTIONS))


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    Tiny(1).write(tmp_path)

    def broken(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "iterdir", broken)
    with pytest.raises(
        InvalidInput, match=rf"{tmp_path.name}: cannot be read: Permission denied; .*https://"
    ):
        load(tmp_path, Options(**OPTIONS))


@pytest.mark.parametrize(("name", "line"), [(RUN, "q7\tp777\t1"), (QRELS, "q7 0 p777 1")])
def test_passages_that_the_collection_lacks_are_named(tmp_path, name, line):
    Tiny(1).write(tmp_path, run="ranked")
    put(name, line)(tmp_path)
    with pytest.raises(
        InvalidInput, match=rf"has 90 passages and lacks p777, which .*{name} names for query q7"
    ):
        load(tmp_path, Options(train_queries=40, validation_queries=10, length=5))


def test_folders_that_are_not_there_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for name, problem in (("none", "no such folder"), ("file", "is not a folder")):
        with pytest.raises(InvalidInput, match=rf"{name}: {problem}; .*collection.tsv.*https"):
            load(tmp_path / name)


def test_a_missing_development_set_is_refused(tmp_path):
    Tiny(1).write(tmp_path)
    with pytest.raises(InvalidInput, match=r"has no queries.dev.tsv"):
        load(tmp_path, Options(validation="dev"))


def test_a_missing_vocabulary_and_missing_vectors_are_refused(tmp_path):
    Tiny(1).write(tmp_path)
    (tmp_path / "bert_embeddings.npz").unlink()
    with pytest.raises(InvalidInput, match=rf"bert_embeddings.npz: no such file.*{SOURCE}$"):
        load(tmp_path, Options(**OPTIONS, negatives="dense"))
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(InvalidInput, match=rf"vocab.txt: cannot be read: No such file.*{SOURCE}$"):
        load(tmp_path, Options(**OPTIONS))


@pytest.mark.parametrize("run", [None, "ranked"])
def test_more_candidates_than_there_are_passages_are_refused(tmp_path, run):
    Tiny(1).write(tmp_path, run=run)
    with pytest.raises(InvalidInput, match=r"none of \d+ queries has 63 negatives.*a smaller length"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("option", "value"),
    [("validation", "test"), ("negatives", "random"), ("train_queries", 0), ("length", 1), ("pool", -1)],
)
def test_options_that_are_not_possible_are_refused(option, value):
    with pytest.raises(InvalidInput, match=rf"{option}: expected .*, got {value!r}"):
        Options(**{option: value})
