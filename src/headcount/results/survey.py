"""What several results folders say of each trial, and where they contradict each other.

The results of a trial are all columns of its row but `device`, `versions` and `seconds`: those say where and
when it was trained. Two rows are equal when their results are, to the last digit (NaN equals NaN). Of equal
rows the quickest is kept, then the first device and versions by the alphabet: it is the same row in whatever
order the folders are named.

Only a fingerprint of every row is held in memory; shards are read one at a time.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headcount.errors import StorageError
from headcount.results.schema import SCHEMA
from headcount.results.store import Store, Unusable, read_shard
from headcount.validation import shown

CIRCUMSTANCES = ("seconds", "device", "versions")
RESULTS = tuple(name for name in SCHEMA.names if name not in CIRCUMSTANCES)

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Shard:
    """A file of rows, and the folder that a person named."""

    folder: Path
    path: Path


@dataclass(frozen=True)
class Line:
    """One row as the survey remembers it."""

    trial: str
    results: bytes
    circumstances: tuple[float, str, str]


@dataclass(slots=True)
class Found:
    """A trial: its results, the row of it that is kept, and all folders that hold it."""

    results: bytes
    circumstances: tuple[float, str, str]
    shard: Shard
    folders: list[Path]


@dataclass(frozen=True)
class Conflict:
    """A trial with one result here and another there; both may be in one folder, or even in one file."""

    trial: str
    one: Shard
    other: Shard

    @property
    def within(self) -> bool:
        """Whether it is a folder that contradicts itself."""
        return self.one.folder == self.other.folder

    def line(self) -> str:
        """The trial, the two places and what differs, for a person."""
        one, other = _differing_rows(self)
        differing = [name for name in RESULTS if repr(one[name]) != repr(other[name])]
        values = ", ".join(f"{name} ({shown(one[name])} and {shown(other[name])})" for name in differing)
        told = "{task}, h = {heads}, T = {length}, seed {seed}".format_map(one)
        return f"trial {self.trial} ({told}): {self._places()} differ in {values}"

    def _places(self) -> str:
        if self.one == self.other:
            return f"two rows of {self.one.path}"
        if self.within:
            return f"{self.one.path} and {self.other.path}"
        return f"{self.one.folder} and {self.other.folder}"


@dataclass
class Survey:
    """All trials of some folders."""

    trials: dict[str, Found] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    members: dict[Path, int] = field(default_factory=dict)

    @classmethod
    def of(cls, folders: Sequence[Path], tell: Tell = lambda _: None) -> "Survey":
        """Look through every folder, shard by shard."""
        survey = cls()
        for folder in folders:
            tell(f"reading {folder}")
            survey.add(folder)
        return survey

    def add(self, folder: Path) -> None:
        """Take note of a folder. As in `Store.frame`, the first of its equal rows for a trial counts."""
        own: dict[str, tuple[bytes, Shard]] = {}
        for path in shard_paths(Store(folder)):
            read, shard = read_shard(path), Shard(folder, path)
            if isinstance(read, Unusable):
                self.problems.append(read.line(set_aside=False))
                continue
            for line in lines(read):
                if line.trial not in own:
                    own[line.trial] = line.results, shard
                    self._note(line, shard)
                elif own[line.trial][0] != line.results:
                    self.conflicts.append(Conflict(line.trial, own[line.trial][1], shard))
        self.members[folder] = len(own)

    def _note(self, line: Line, shard: Shard) -> None:
        found = self.trials.get(line.trial)
        if found is None:
            self.trials[line.trial] = Found(line.results, line.circumstances, shard, [shard.folder])
        elif found.results != line.results:
            self.conflicts.append(Conflict(line.trial, found.shard, shard))
        else:
            found.folders.append(shard.folder)
            if line.circumstances < found.circumstances:
                found.circumstances, found.shard = line.circumstances, shard


def shard_paths(store: Store) -> list[Path]:
    """The shards of a results folder, in the order in which their rows count."""
    try:
        if not store.folder.exists():
            raise StorageError(f"{store.folder}: no such folder; allowed is one that `headcount sweep` made")
        if not store.shards.is_dir():
            raise StorageError(f"{store.folder}: not a results folder: it holds no folder named shards")
        return sorted(path for path in store.shards.iterdir() if path.suffix == ".parquet")
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{store.folder}: cannot be read: {error.strerror}") from error


def lines(rows: pa.Table) -> Iterator[Line]:
    """Every row of a shard, as short as can be."""
    for some in rows.to_batches(max_chunksize=1_024):
        results = zip(*(some[name].to_pylist() for name in RESULTS), strict=True)
        circumstances = zip(*(some[name].to_pylist() for name in CIRCUMSTANCES), strict=True)
        for trial, result, when in zip(some["trial"].to_pylist(), results, circumstances, strict=True):
            # As text, a number is exact and NaN equals NaN.
            yield Line(trial, hashlib.blake2b(repr(result).encode(), digest_size=16).digest(), when)


def _differing_rows(conflict: Conflict) -> tuple[dict[str, object], dict[str, object]]:
    """The first rows of the trial, here and there, whose results are not the same."""
    here, there = (_rows(shard.path, conflict.trial) for shard in (conflict.one, conflict.other))
    for one in here:
        for other in there:
            if any(repr(one[name]) != repr(other[name]) for name in RESULTS):
                return one, other
    raise StorageError(f"{conflict.one.path}: changed while it was read; run the same command again")


def _rows(shard: Path, trial: str) -> list[dict[str, object]]:
    read = read_shard(shard)
    if isinstance(read, Unusable):
        return []
    places = [place for place, other in enumerate(read["trial"].to_pylist()) if other == trial]
    rows: list[dict[str, object]] = read.take(pa.array(places, pa.int64())).to_pylist()
    return rows
