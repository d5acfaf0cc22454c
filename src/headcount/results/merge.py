"""Results folders of several machines become one: every trial once.

    OUT/shards/merged.parquet       one row for each trial of any folder
    OUT/models/<trial>.npz          the members that a folder keeps the weights of

What equal rows are, and which of them is kept, is said in results/survey.py. Where rows contradict each other
nothing is written. The models come first and the rows last, in one file that is whole or not there: killed at
any moment, the same merge run again gives the whole result. Checkpoints, pages and estimates stay where they
are; the latter can be made again from the rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from headcount.errors import InvalidInput, StorageError
from headcount.results.files import remove_leftovers, write_whole
from headcount.results.kept_models import carry_models
from headcount.results.schema import SCHEMA
from headcount.results.store import DAMAGED, Store, Unusable, read_shard
from headcount.results.survey import Conflict, Shard, Survey, Tell, lines, shard_paths

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
        allowed = (
            "allowed is one result for each trial: take one of the files away, and sweep again what is lost"
            if conflicts[0].within
            else "allowed are folders that agree: leave one of them out"
        )
        super().__init__(
            f"{trials} different results, so nothing is written: {first}{conflicts[0].line()}; {allowed}"
        )


@dataclass(frozen=True)
class Merged:
    """What a merge made: trials, how many of them were in more than one folder, and models carried along."""

    out: Path
    trials: int
    shared: int
    models: int
    members: dict[Path, int]
    problems: tuple[str, ...]


def merge(folders: Sequence[Path], out: Path, tell: Tell = lambda _: None) -> Merged:
    """Join results folders by trial into `out`, which is new, empty, or holds an earlier such merge."""
    once = _each_once(folders)
    _check_apart(once, out)
    survey = Survey.of(once, tell)
    problems = [*_named_twice(folders, once), *survey.problems]
    store = Store(out)
    aside = _compare_with_earlier(survey, store)
    if survey.conflicts:
        raise Contradiction(survey.conflicts)
    if not survey.trials:
        raise InvalidInput(f"{', '.join(map(str, once))}: no finished trial to merge{_because(problems)}")
    for folder in (store.folder, store.shards, store.models):
        remove_leftovers(folder)
    if aside is not None:
        problems.append(_set_aside(aside))
    carried, lost = carry_models(survey, store, tell)
    tell(f"writing {len(survey.trials):,} rows")
    write_whole(store.shards / MERGED, lambda file: _write_rows(survey, file))
    shared = sum(len(found.folders) > 1 for found in survey.trials.values())
    return Merged(out, len(survey.trials), shared, carried, survey.members, (*problems, *lost))


def _because(problems: Sequence[str]) -> str:
    """The files that could not be used, in brackets; of many the first few."""
    more = len(problems) - MAX_NAMED
    named = [*problems[:MAX_NAMED], *([f"and {more:,} more"] if more > 0 else [])]
    return f" ({'; '.join(named)})" if named else ""


def _each_once(folders: Sequence[Path]) -> list[Path]:
    return list({folder.resolve(): folder for folder in reversed(folders)}.values())[::-1]


def _named_twice(folders: Sequence[Path], once: Sequence[Path]) -> list[str]:
    twice = len(folders) - len(once)
    return [f"{twice} of the {len(folders)} folders were named before, and count once"] if twice else []


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
        raise InvalidInput(f"--out = {out}: {relation}; allowed is a folder of its own")


def _compare_with_earlier(survey: Survey, store: Store) -> Unusable | None:
    """What `out` holds must be part of this merge; returns the earlier merge where it is damaged."""
    if store.folder.exists() and not store.folder.is_dir():
        raise StorageError(f"{store.folder}: is a file; --out is a folder")
    if not store.shards.exists():
        return None
    earlier = store.shards / MERGED
    for path in shard_paths(store):
        if path != earlier:
            raise InvalidInput(
                f"--out = {store.folder}: holds other results ({path.name}); allowed is a new folder, "
                "with this one among those to merge"
            )
    if not earlier.exists():
        return None
    read = read_shard(earlier)
    if isinstance(read, Unusable):
        if read.damaged:
            return read
        raise InvalidInput(f"--out = {store.folder}: {earlier} is {read.reason}; allowed is a new folder")
    lost = 0
    for line in lines(read):
        found = survey.trials.get(line.trial)
        if found is None:
            lost += 1
        elif found.results != line.results:
            survey.conflicts.append(Conflict(line.trial, found.shard, Shard(store.folder, earlier)))
    if lost:
        trials = "1 trial that is" if lost == 1 else f"{lost:,} trials that are"
        raise InvalidInput(
            f"--out = {store.folder}: holds {trials} in none of the folders to merge; allowed is a new "
            "folder, with this one among those to merge"
        )
    return None


def _set_aside(earlier: Unusable) -> str:
    try:
        earlier.path.rename(earlier.path.with_name(earlier.path.name + DAMAGED))
    except OSError as error:
        raise StorageError(f"{earlier.path}: cannot be set aside: {error.strerror}") from error
    return f"{earlier.path}: damaged ({earlier.reason}), set aside and written anew"


def _write_rows(survey: Survey, file: BinaryIO) -> None:
    """The kept rows, a few thousand at a time."""
    written = 0
    with pq.ParquetWriter(file, SCHEMA, write_page_checksum=True) as writer:
        for rows in _in_batches(_kept_rows(survey)):
            writer.write_table(rows, row_group_size=len(rows))
            written += len(rows)
    if written != len(survey.trials):
        raise StorageError("a folder changed while it was merged; run the same command again")


def _kept_rows(survey: Survey) -> Iterator[pa.Table]:
    homes = {found.shard for found in survey.trials.values()}
    for shard in sorted(homes, key=lambda home: (home.path.name, str(home.folder))):
        read = read_shard(shard.path)
        if isinstance(read, Unusable):
            raise StorageError(f"{shard.path}: changed while it was merged; run the same command again")
        places = _kept_places(survey, shard, read["trial"].to_pylist())
        yield read.take(pa.array(places, pa.int64()))


def _kept_places(survey: Survey, shard: Shard, trials: Sequence[str]) -> list[int]:
    first = {trial: place for place, trial in reversed(list(enumerate(trials)))}
    return [
        place
        for trial, place in sorted(first.items(), key=lambda pair: pair[1])
        if trial in survey.trials and survey.trials[trial].shard == shard
    ]


def _in_batches(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Small tables joined: a file of many small groups of rows would be slow to read."""
    waiting: list[pa.Table] = []
    for rows in tables:
        waiting.append(rows)
        if sum(map(len, waiting)) >= ROWS_AT_ONCE:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()
