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


def replaced(name: str, content: bytes) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return spoil


def cut(folder: Path) -> None:
    packed = gzip.compress((folder / "collection.tsv").read_bytes())
    (folder / "collection.tsv").unlink()
    (folder / "collection.tsv.gz").write_bytes(packed[: len(packed) // 2])


def damaged(folder: Path) -> None:
    (folder / "collection.tsv").unlink()
    (folder / "collection.tsv.gz").write_bytes(b"this is no gzip")


def folder_for(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return spoil


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "no queries": (removed("queries.train.tsv"), "has no queries.train.tsv and no queries.train.tsv.gz"),
    "no judgements": (removed("qrels.train.tsv"), "has no qrels.train.tsv"),
    "no collection": (removed("collection.tsv"), "holds neither; expected is a folder with"),
    "a passage without text": (
        put("collection.tsv", "p999"),
        "collection.tsv: line 3 has 1 columns; expected is 2",
    ),
    "a passage with a tab": (put("collection.tsv", "p999\tone\ttwo"), "collection.tsv: line 3 has 3 columns"),
    "a blank line": (put("queries.train.tsv", "", at=5), "queries.train.tsv: line 5 has 1 columns"),
    "judgements of 3 columns": (put("qrels.train.tsv", "q1 p1 1"), "qrels.train.tsv: line 3 has 3 columns"),
    "an unknown query": (
        put("qrels.train.tsv", "q77 0 p1 1"),
        "line 3 names query q77; expected is one that queries",
    ),
    "no answers": (replaced("qrels.train.tsv", b"q1 0 p1 0\n"), "qrels.train.tsv: no query has a positive"),
    "a run of 5 columns": (put("run.train.tsv", "q1 p1 1 2 3", at=1), "run.train.tsv: line 1 has 5 columns"),
    "a short line in a run": (
        put("run.train.tsv", "q1\tp1"),
        "run.train.tsv: line 3 has 2 columns; expected is 3",
    ),
    "a rank that is no number": (put("run.train.tsv", "q1\tp1\tx"), "run.train.tsv: line 3 has the rank 'x'"),
    "a run of an unknown query": (
        put("run.train.tsv", "q77\tp1\t1"),
        "run.train.tsv: line 3 names query q77",
    ),
    "two runs": (replaced("top1000.train.tsv", b"q1\tp1\t1\n"), "has 2 run files for train"),
    "an empty run": (replaced("run.train.tsv", b""), "run.train.tsv: line 1 has 0 columns"),
    "a run that is a folder": (folder_for("run.train.tsv"), "run.train.tsv: is no file; expected is a run"),
    "a grade of text": (
        put("qrels.train.tsv", "q1 0 p1 x"),
        "qrels.train.tsv: line 3 has the grade 'x'; expected is a whole number",
    ),
    "a grade with a point": (put("qrels.train.tsv", "q1 0 p1 0.0"), "qrels.train.tsv: line 3 has the grade"),
    "a rank below 0": (put("run.train.tsv", "q1\tp1\t-1"), "run.train.tsv: line 3 has the rank '-1'"),
    "a rank without end": (put("run.train.tsv", "q1\tp1\t" + 5000 * "9"), "line 3 has the rank '9999"),
    "a query twice": (
        put("queries.train.tsv", "q0\tw9 w8 w7"),
        "queries.train.tsv: line 3 has query q0 again, with another text; expected is each once",
    ),
    "a passage twice": (
        put("collection.tsv", f"{ANSWER}\tw9 w8 w7"),
        f"collection.tsv: has passage {ANSWER} twice, with different texts; expected is each once",
    ),
    "an empty collection": (replaced("collection.tsv", b""), "collection.tsv: has 0 passages and lacks p"),
    "a collection cut after a line": (
        replaced("collection.tsv", b"p0\tw1 w2\n"),
        "collection.tsv: has 1 passages and lacks p",
    ),
    "blank queries": (
        replaced("queries.train.tsv", "".join(f"q{number}\t \n" for number in range(24)).encode()),
        "qrels.train.tsv: names 24 queries, and all of them are blank",
    ),
    "a query alone": (
        replaced("qrels.train.tsv", b"q3 0 p1 1\n"),
        "qrels.train.tsv: has one query alone that can be used; expected is two or more",
    ),
    "one query under many names": (
        replaced("queries.train.tsv", "".join(f"q{number}\tw1 w2\n" for number in range(24)).encode()),
        "queries to learn from has the words or an answer of one to validate on",
    ),
    "a cut .gz": (cut, "collection.tsv.gz: the .gz is cut short"),
    "a damaged .gz": (damaged, "collection.tsv.gz: the .gz is cut short or damaged"),
    "bytes": (replaced("collection.tsv", b"p0\t\xff\xfe\n"), "collection.tsv: holds bytes that are no text"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_spoilt_files_are_refused_in_one_line(tmp_path, case):
    spoil, problem = REFUSED[case]
    Tiny(1).write(tmp_path, run="ranked")
    spoil(tmp_path)
    with pytest.raises(InvalidInput) as refusal:
        load(tmp_path, Options(**OPTIONS))
    message = str(refusal.value)
    assert problem in message
    assert message.startswith(str(tmp_path))
    assert message.endswith("the data are at https://microsoft.github.io/msmarco/")
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


def test_passages_that_are_not_there_are_refused(tmp_path):
    tiny = Tiny(1)
    every = Options(train_queries=40, validation_queries=10, length=5)
    tiny.write(tmp_path, run="ranked")
    put("run.train.tsv", "q7\tp777\t1")(tmp_path)
    with pytest.raises(
        InvalidInput,
        match=r"collection.tsv: has 90 passages and lacks p777, which .*run.train.tsv names for query q7;",
    ):
        load(tmp_path, every)
    tiny.write(tmp_path, run="ranked")
    put("qrels.train.tsv", "q7 0 p777 1")(tmp_path)
    with pytest.raises(
        InvalidInput,
        match=r"collection.tsv: has 90 passages and lacks p777, which .*qrels.train.tsv names for query q7;",
    ):
        load(tmp_path, every)


def test_folders_that_are_not_there_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for folder, problem in (
        (tmp_path / "none", "there is no such folder"),
        (tmp_path / "file", "is no folder"),
    ):
        with pytest.raises(
            InvalidInput, match=rf"{folder.name}: {problem}; .*msmarco_tokens.npz.*collection.tsv.*https"
        ):
            load(folder)


def test_a_missing_development_set_is_refused(tmp_path):
    Tiny(1).write(tmp_path)
    with pytest.raises(InvalidInput, match=r"has no queries.dev.tsv"):
        load(tmp_path, Options(validation="dev"))


def test_a_missing_vocabulary_and_missing_vectors_are_refused(tmp_path):
    Tiny(1).write(tmp_path)
    (tmp_path / "bert_embeddings.npz").unlink()
    with pytest.raises(InvalidInput, match=rf"bert_embeddings.npz: there is no such file.*{SOURCE}$"):
        load(tmp_path, Options(**OPTIONS, negatives="dense"))
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(InvalidInput, match=rf"vocab.txt: cannot be read: No such file.*{SOURCE}$"):
        load(tmp_path, Options(**OPTIONS))


@pytest.mark.parametrize("run", [None, "ranked"])
def test_more_candidates_than_there_are_passages_are_refused(tmp_path, run):
    Tiny(1).write(tmp_path, run=run)
    with pytest.raises(InvalidInput, match=r"none of \d+ queries has 63 negatives.*a smaller length"):
        load(tmp_path)


def test_a_run_of_queries_without_answers_is_refused(tmp_path):
    Tiny(1).write(tmp_path)
    (tmp_path / "qrels.train.tsv").write_text("q3 0 p1 1\n")
    (tmp_path / "run.train.tsv").write_text("q4\tp1\t1\n")
    with pytest.raises(InvalidInput, match=r"run.train.tsv: has no query that .*qrels.train.tsv has"):
        load(tmp_path, Options(**OPTIONS))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("validation", "test"),
        ("negatives", "random"),
        ("train_queries", 0),
        ("validation_queries", 2.5),
        ("length", 1),
        ("pool", -1),
        ("seed", -1),
    ],
)
def test_options_that_are_not_possible_are_refused(option, value):
    with pytest.raises(InvalidInput, match=rf"{option} = .*: allowed"):
        Options(**{option: value})
