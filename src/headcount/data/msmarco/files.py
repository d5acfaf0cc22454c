"""The official files of MS MARCO: tab-separated, plain or gzipped."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import IO

from headcount.data.msmarco.source import Collection, Judged, Run, Validation, refused, unreadable
from headcount.errors import InvalidInput
from headcount.validation import shown

COLLECTION = "collection.tsv"
ENCODING = "utf-8-sig"  # UTF-8, with a mark at its start or without
GRADE, RANK = re.compile("-?[0-9]{1,18}"), re.compile("[0-9]{1,18}")
RUN_NAME = r"(top1000|run)\.(.+\.)?{part}(\.small)?(\.tsv|\.txt|\.trec)?(\.gz)?"


def official(folder: Path, validation: Validation) -> Collection:
    """The folder's collection, its training queries and those to validate on.

    MS MARCO has no held-out queries of its own: a folder may add files of that name, or do without.
    """
    path = _existing(folder, COLLECTION)
    if path is None:
        raise refused(folder, f"has no {COLLECTION}", f"a folder with the official {COLLECTION}")

    def passages() -> Iterator[tuple[str, str]]:
        return ((name, text) for _, (name, text) in _rows(path, columns=2, layout="pid and text"))

    given = validation == "dev" or _existing(folder, f"queries.{validation}.tsv")
    return Collection(
        str(path), passages, _judged(folder, "train"), _judged(folder, validation) if given else None
    )


def _judged(folder: Path, part: str) -> Judged:
    small = _existing(folder, f"queries.{part}.tsv") is None
    suffix = f"{part}.small" if small and _existing(folder, f"queries.{part}.small.tsv") else part
    queries, judgements = _found(folder, f"queries.{suffix}.tsv"), _found(folder, f"qrels.{suffix}.tsv")
    texts: dict[str, str] = {}
    for line, (name, text) in _rows(queries, columns=2, layout="qid and text"):
        if texts.setdefault(name, text) != text:
            raise refused(queries, f"line {line} has query {name} again, with another text", "each once")
    relevant: dict[str, list[str]] = {}
    for line, (query, _, passage, grade) in _rows(judgements, columns=4, layout="qid 0 pid 1", spaces=True):
        if query not in texts:
            raise _unknown(judgements, line, query, queries)
        if not GRADE.fullmatch(grade):
            raise refused(judgements, f"line {line} has the grade {shown(grade)}", "an integer")
        if int(grade) >= 1 and passage not in relevant.setdefault(query, []):
            relevant[query].append(passage)
    if not relevant:
        raise refused(judgements, "no query has a positive", "lines with qid 0 pid 1")
    return Judged(str(judgements), texts, relevant, _run(folder, part, texts, queries))


def _run(folder: Path, part: str, texts: dict[str, str], queries: Path) -> Run | None:
    name = re.compile(RUN_NAME.format(part=part))
    paths = sorted(path for path in folder.iterdir() if name.fullmatch(path.name))
    if not paths:
        return None
    if len(paths) > 1:
        found = f"has {len(paths)} run files for {part}: {', '.join(path.name for path in paths)}"
        raise refused(folder, found, "one at most")
    path = paths[0]
    if not path.is_file():
        raise refused(path, "is not a file", "a run file, or none")
    ranked = _columns(path) != 4
    known: set[str] = set()
    for line, query, _, _ in _hits(path):
        if query not in texts:
            raise _unknown(path, line, query, queries)
        known.add(query)

    def found_for(wanted: Iterable[str], depth: int) -> dict[str, list[str]]:
        hits: dict[str, list[tuple[int, str]]] = {query: [] for query in wanted}
        for _, query, passage, rank in _hits(path):
            if query in hits and (not ranked or rank <= depth):
                hits[query].append((rank, passage))
        by_rank = itemgetter(0)
        return {query: [passage for _, passage in sorted(hits[query], key=by_rank)] for query in hits}

    return Run(str(path), ranked, frozenset(known), found_for)


def _hits(path: Path) -> Iterator[tuple[int, str, str, int]]:
    """Line, query, passage and rank of a run in any of three layouts; the one with texts has no ranks."""
    columns = _columns(path)
    layout = {3: "qid, pid and rank", 4: "qid, pid, query and passage", 6: "qid Q0 pid rank score tag"}
    if columns not in layout:
        raise refused(path, f"line 1 has {columns} columns", " or ".join(layout.values()))
    for line, row in _rows(path, columns=columns, layout=layout[columns], spaces=columns != 4):
        passage, rank = (row[2], row[3]) if columns == 6 else (row[1], row[2] if columns == 3 else "0")
        if not RANK.fullmatch(rank):
            raise refused(path, f"line {line} has the rank {shown(rank)}", "an integer >= 0")
        yield line, row[0], passage, int(rank)


def _columns(path: Path) -> int:
    first = next(_lines(path), (1, ""))[1]
    return 4 if first.count("\t") == 3 else len(first.split())


def _rows(path: Path, *, columns: int, layout: str, spaces: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Each line's number and its columns, split at tabs, or at any whitespace with `spaces`."""
    for line, text in _lines(path):
        row = text.split() if spaces else text.split("\t")
        if len(row) != columns:
            raise refused(path, f"line {line} has {len(row)} columns", f"{columns}: {layout}")
        yield line, row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        opener: Callable[..., IO[str]] = gzip.open if path.suffix == ".gz" else Path.open
        with opener(path, "rt", encoding=ENCODING, newline="\n") as file:
            for line, text in enumerate(file, 1):
                yield line, text.rstrip("\r\n")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise refused(path, "the .gz is truncated or damaged", "a complete file") from None
    except UnicodeDecodeError:
        raise refused(path, "is not text", "UTF-8") from None
    except OSError as error:
        raise unreadable(path, error) from None


def _existing(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def _found(folder: Path, name: str) -> Path:
    path = _existing(folder, name)
    if path is None:
        raise refused(folder, f"has no {name} and no {name}.gz", f"{name}, one of the official files")
    return path


def _unknown(path: Path, line: int, query: str, known: Path) -> InvalidInput:
    return refused(path, f"line {line} names query {query}", f"one that {known.name} has")
