import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_msmarco import Tiny

from headcount.errors import InvalidInput
from headcount.tasks.msmarco import load
from headcount.tasks.msmarco_source import Options

OPTIONS = {"train_queries": 12, "validation_queries": 6, "length": 5}


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


def test_passages_that_are_not_there_are_refused(tmp_path):
    tiny = Tiny(1)
    every = Options(train_queries=40, validation_queries=10, length=5)
    tiny.write(tmp_path, run="ranked")
    put("run.train.tsv", "q7\tp777\t1")(tmp_path)
    with pytest.raises(
        InvalidInput, match=r"run.train.tsv: names passage p777 for query q7; expected is a passage"
    ):
        load(tmp_path, every)
    tiny.write(tmp_path, run="ranked")
    put("qrels.train.tsv", "q7 0 p777 1")(tmp_path)
    with pytest.raises(
        InvalidInput, match=r"qrels.train.tsv: names passage p777 for query q7; expected is a passage"
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
    with pytest.raises(InvalidInput, match=r"bert_embeddings.npz: there is no such file"):
        load(tmp_path, Options(**OPTIONS, negatives="dense"))
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(InvalidInput, match=r"vocab.txt: cannot be read"):
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
