"""What several results folders hold of each trial, and where they contradict each other.

When two rows of a trial agree is defined in results/agreement.py. One of them is kept: the quickest, then the
first device and versions by the alphabet, then the first figures. Every other row is compared with the one
that is kept, once all folders are read, so that the order in which folders are named decides nothing. As in
`Store.frame`, the first of several rows within a folder counts.

Only a short record of every row is held in memory; shards are read one at a time. A shard is known by its
path, whose grandparent is the folder as the user named it.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headcount.errors import StorageError
from headcount.results.agreement import FIXED, RESULTS, Figures, differing, differing_figures
from headcount.results.shards import Unusable, read_shard
from headcount.results.store import Store
from headcount.validation import shown

Report = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Record:
    """One row as the survey remembers it: a hash of what must be equal, and what may differ a little."""

    fixed: bytes
    figures: Figures
    circumstances: tuple[float, str, str]

    @property
    def place(self) -> tuple[tuple[float, str, str], str]:
        """The smallest is kept. As text, since NaN has no place among numbers."""
        return self.circumstances, repr(self.figures)

    def agrees_with(self, other: "Record") -> bool:
        """Whether both may be rows of the same trial."""
        return self.fixed == other.fixed and not differing_figures(self.figures, other.figures)


@dataclass(slots=True)
class Found:
    """A trial: the row of it that is kept, all folders that hold it, and all other rows."""

    kept: Record
    shard: Path
    folders: list[Path]
    others: list[tuple[Record, Path]] = field(default_factory=list)

    def add(self, record: Record, shard: Path) -> None:
        """Take note of another row; it may be kept where it is the first of its folder."""
        if shard.parents[1] not in self.folders:
            self.folders.append(shard.parents[1])
            if record.place < self.kept.place:
                record, shard, self.kept, self.shard = self.kept, self.shard, record, shard
        self.others.append((record, shard))

    @property
    def homes(self) -> set[Path]:
        """The folders that hold the row that is kept, or one that equals it."""
        alike = (shard.parents[1] for record, shard in self.others if record.place == self.kept.place)
        return {self.shard.parents[1], *alike}


@dataclass(frozen=True)
class Conflict:
    """A trial with one result here and another there; both may be in one folder, or even in one file."""

    trial: str
    one: Path
    other: Path
    strict: bool

    @property
    def within(self) -> bool:
        """Whether it is a folder that contradicts itself."""
        return self.one.parent == self.other.parent

    def line(self) -> str:
        """The trial, the two places and what differs between the first rows there that disagree."""
        here, there = (_rows(shard, self.trial) for shard in (self.one, self.other))
        for one, other in product(here, there):
            if names := differing(one, other, strict=self.strict):
                break
        else:
            raise StorageError(f"{self.one}: changed while it was read; run the same command again")
        values = ", ".join(f"{name} ({shown(one[name])} and {shown(other[name])})" for name in names)
        point = "{task}, h = {heads}, T = {length}, seed {seed}".format_map(one)
        places = f"{self.one.parents[1]} and {self.other.parents[1]}"
        if self.within:
            places = f"two rows of {self.one}" if self.one == self.other else f"{self.one} and {self.other}"
        return f"trial {self.trial} ({point}): {places} differ in {values}"


@dataclass
class Survey:
    """All trials of some folders. With `strict`, rows agree when their results do to the last digit."""

    strict: bool
    trials: dict[str, Found] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    members: dict[Path, int] = field(default_factory=dict)

    def add(self, folder: Path) -> None:
        """Take note of a folder, shard by shard."""
        own: set[str] = set()
        for shard in shard_paths(Store(folder)):
            read = read_shard(shard)
            if isinstance(read, Unusable):
                self.problems.append(read.line(set_aside=False))
                continue
            for trial, record in records(read, strict=self.strict):
                own.add(trial)
                if trial in self.trials:
                    self.trials[trial].add(record, shard)
                else:
                    self.trials[trial] = Found(record, shard, [folder])
        self.members[folder] = len(own)

    def conflicts(self) -> list[Conflict]:
        """Every row that does not agree with the one that is kept of its trial."""
        return [
            Conflict(trial, found.shard, shard, self.strict)
            for trial, found in self.trials.items()
            for record, shard in found.others
            if not record.agrees_with(found.kept)
        ]


def shard_paths(store: Store) -> list[Path]:
    """The shards of a results folder, in the order in which their rows count."""
    try:
        return sorted(path for path in store.shards.iterdir() if path.suffix == ".parquet")
    except (FileNotFoundError, NotADirectoryError) as error:
        reason = "no such folder; `headcount sweep` makes one"
        if store.folder.exists():
            reason = "not a results folder: it holds no folder named shards"
        raise StorageError(f"{store.folder}: {reason}") from error
    except OSError as error:
        raise StorageError(f"{store.folder}: cannot be read: {error.strerror}") from error


def records(rows: pa.Table, *, strict: bool) -> Iterator[tuple[str, Record]]:
    """Every row of a shard by its trial, as short as can be."""
    for some in rows.to_batches(max_chunksize=1_024):
        for row in some.to_pylist():
            # As text, a number is exact and NaN equals NaN.
            fixed = repr([row[name] for name in (RESULTS if strict else FIXED)])
            figures = Figures(*(row[name] for name in Figures._fields))
            # Names are held once, however many rows have them.
            circumstances = row["seconds"], sys.intern(row["device"]), sys.intern(row["versions"])
            digest = hashlib.blake2b(fixed.encode(), digest_size=16).digest()
            yield row["trial"], Record(digest, figures, circumstances)


def _rows(shard: Path, trial: str) -> list[dict[str, object]]:
    read = read_shard(shard)
    if isinstance(read, Unusable):
        return []
    rows: list[dict[str, object]] = read.filter(pc.field("trial") == trial).to_pylist()
    return rows
