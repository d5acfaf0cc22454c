"""Results folders of several machines become one: every trial once.

    OUT/shards/merged.parquet       one row for each trial of any folder
    OUT/models/<trial>.npz          the members that a folder keeps the weights of

When two rows agree is defined in results/agreement.py, which of them is kept in results/survey.py. Where
rows contradict each other nothing is written. The models come first and the rows last, in one file that is
whole or not there: killed at any moment, the same merge run again gives the whole result. Everything else
stays where it is; pages and estimates can be made again from the rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from headcount.errors import InvalidInput, StorageError
from headcount.results.files import remove_leftovers, write_whole
from headcount.results.kept_models import copy_models
from headcount.results.shards import SCHEMA, Unusable, read_shard
from headcount.results.store import DAMAGED, Store
from headcount.results.survey import Conflict, Report, Survey, records, shard_paths

MERGED = "merged.parquet"
ROWS_AT_ONCE = 4_096
MAX_NAMED = 5


class Contradiction(InvalidInput):
    """Different results for one trial, in two folders or in one; `conflicts` has them all."""

    def __init__(self, conflicts: Sequence[Conflict]) -> None:
        self.conflicts = tuple(conflicts)
        many = len({conflict.trial for conflict in conflicts})
        trials = "1 trial has" if many == 1 else f"{many:,} trials have"
        first = "" if len(conflicts) == 1 else "for one, "
        advice = "leave one of the folders out"
        if conflicts[0].within:
            advice = "remove one of the files, and sweep again what is lost"
        super().__init__(
            f"{trials} different results, so nothing is written: {first}{conflicts[0].line()}; {advice}"
        )


@dataclass(frozen=True)
class Merged:
    """What a merge made: trials, how many of them were in more than one folder, and models copied."""

    out: Path
    trials: int
    shared: int
    models: int
    members: dict[Path, int]
    problems: tuple[str, ...]


def merge(
    folders: Sequence[Path], out: Path, report: Report = lambda _: None, *, strict: bool = False
) -> Merged:
    """Join results folders by trial into `out`, which is new, empty, or holds an earlier such merge.

    Rows of one trial must agree as the same trial does in another pack; with `strict`, to the last digit.
    """
    once = list({folder.resolve(): folder for folder in reversed(folders)}.values())[::-1]
    _check_apart(once, out)
    survey = Survey(strict)
    for folder in once:
        report(f"reading {folder}")
        survey.add(folder)
    problems = survey.problems
    if twice := len(folders) - len(once):
        problems.insert(0, f"{twice} of the {len(folders)} folders were named before, and count once")
    store = Store(out)
    aside, conflicts = _compare_with_earlier(survey, store)
    if conflicts := [*survey.conflicts(), *conflicts]:
        raise Contradiction(conflicts)
    if not survey.trials:
        raise InvalidInput(f"{', '.join(map(str, once))}: no finished trial to merge{_because(problems)}")
    with store.writing():
        for folder in (store.folder, store.shards, store.models):
            remove_leftovers(folder)
        if aside is not None:
            problems.append(_set_aside(aside))
        copied, lost = copy_models(survey, store, report)
        report(f"writing {len(survey.trials):,} rows")
        write_whole(store.shards / MERGED, lambda file: _write_rows(survey, file))
    shared = sum(len(found.folders) > 1 for found in survey.trials.values())
    return Merged(out, len(survey.trials), shared, copied, survey.members, (*problems, *lost))


def _because(problems: Sequence[str]) -> str:
    """The files that could not be used, in brackets; of many the first few."""
    more = len(problems) - MAX_NAMED
    named = [*problems[:MAX_NAMED], *([f"and {more:,} more"] if more > 0 else [])]
    return f" ({'; '.join(named)})" if named else ""


def _check_apart(folders: Sequence[Path], out: Path) -> None:
    """A merge into one of its own inputs could not be run again."""
    place = out.resolve()
    for folder in folders:
        where = folder.resolve()
        if place == where:
            relation = "is one of the folders to merge"
        elif where in place.parents:
            relation = f"lies in {folder}, which is to be merged"
        elif place in where.parents:
            relation = f"holds {folder}, which is to be merged"
        else:
            continue
        raise InvalidInput(f"--out: expected a folder of its own, but {out} {relation}")


def _compare_with_earlier(survey: Survey, store: Store) -> tuple[Unusable | None, list[Conflict]]:
    """What `out` holds must be part of this merge; returns an earlier one that is damaged, and conflicts."""
    if store.folder.exists() and not store.folder.is_dir():
        raise StorageError(f"{store.folder}: is a file; expected a folder")
    if not store.shards.exists():
        return None, []
    earlier = store.shards / MERGED
    if others := [path.name for path in shard_paths(store) if path != earlier]:
        raise _other_results(store, others[0])
    if not earlier.exists():
        return None, []
    read = read_shard(earlier)
    if isinstance(read, Unusable):
        if read.damaged:
            return read, []
        raise InvalidInput(f"--out: expected a new folder, but {earlier} is {read.reason}")
    known = [
        (trial, record) for trial, record in records(read, strict=survey.strict) if trial in survey.trials
    ]
    if lost := len(read) - len(known):
        raise _other_results(store, f"{lost:,} trial{'s' * (lost > 1)} of no folder that is merged")
    return None, [
        Conflict(trial, survey.trials[trial].shard, earlier, survey.strict)
        for trial, record in known
        if not record.agrees_with(survey.trials[trial].kept)
    ]


def _other_results(store: Store, what: str) -> InvalidInput:
    return InvalidInput(
        f"--out: expected a new folder, but {store.folder} holds other results ({what}); to add to them, "
        "name it among the folders to merge"
    )


def _set_aside(earlier: Unusable) -> str:
    try:
        earlier.path.rename(earlier.path.with_name(earlier.path.name + DAMAGED))
    except OSError as error:
        raise StorageError(f"{earlier.path}: cannot be set aside: {error.strerror}") from error
    return f"{earlier.path}: damaged ({earlier.reason}), set aside and written anew"


def _write_rows(survey: Survey, file: BinaryIO) -> None:
    """The kept rows, a few thousand at a time: a file of many small groups of rows would be slow to read."""
    written = 0
    waiting: list[pa.Table] = []
    with pq.ParquetWriter(file, SCHEMA, write_page_checksum=True) as writer:
        for rows in _kept_rows(survey):
            waiting.append(rows)
            written += len(rows)
            if sum(map(len, waiting)) >= ROWS_AT_ONCE or written == len(survey.trials):
                writer.write_table(pa.concat_tables(waiting).combine_chunks(), row_group_size=written)
                waiting = []
    if written != len(survey.trials):
        raise StorageError("a folder changed while it was merged; run the same command again")


def _kept_rows(survey: Survey) -> Iterator[pa.Table]:
    """Of every shard the first row of each trial whose row there is kept."""
    kept: dict[Path, set[str]] = {}
    for trial, found in survey.trials.items():
        kept.setdefault(found.shard, set()).add(trial)
    for shard in sorted(kept, key=lambda path: (path.name, str(path.parents[1]))):
        read = read_shard(shard)
        if isinstance(read, Unusable):
            raise StorageError(f"{shard}: changed while it was merged; run the same command again")
        first = {trial: place for place, trial in reversed(list(enumerate(read["trial"].to_pylist())))}
        places = sorted(first[trial] for trial in kept[shard] & first.keys())
        yield read.take(pa.array(places, pa.int64()))
