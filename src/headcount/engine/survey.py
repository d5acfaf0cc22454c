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

from headcount.engine.frame import SCHEMA
from headcount.engine.store import Store, Unusable, read_shard
from headcount.errors import StorageError
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
    """A trial with one result here and another there."""

    trial: str
    one: Shard
    other: Shard

    def line(self) -> str:
        """The trial, the two folders and what differs, for a person."""
        rows = [_row(shard.path, self.trial) for shard in (self.one, self.other)]
        differing = [name for name in RESULTS if repr(rows[0][name]) != repr(rows[1][name])]
        values = ", ".join(
            f"{name} ({shown(rows[0][name])} and {shown(rows[1][name])})" for name in differing
        )
        told = "{task}, h = {heads}, T = {length}, seed {seed}".format_map(rows[0])
        return f"trial {self.trial} ({told}): {self.one.folder} and {self.other.folder} differ in {values}"


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
        """Take note of a folder. As in `Store.frame`, the first of its rows for a trial counts."""
        own: set[str] = set()
        for path in shard_paths(Store(folder)):
            read = read_shard(path)
            if isinstance(read, Unusable):
                self.problems.append(read.line(set_aside=False))
                continue
            for line in lines(read):
                if line.trial not in own:
                    own.add(line.trial)
                    self._note(line, Shard(folder, path))
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


def _row(shard: Path, trial: str) -> dict[str, object]:
    read = read_shard(shard)
    if isinstance(read, Unusable) or trial not in (trials := read["trial"].to_pylist()):
        raise StorageError(f"{shard}: changed while it was read; run the same command again")
    row: dict[str, object] = read.slice(trials.index(trial), 1).to_pylist()[0]
    return row
