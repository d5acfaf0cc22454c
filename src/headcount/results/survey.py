"""What several results folders hold of each trial, and where they contradict each other.

When two rows of a trial agree is defined in results/agreement.py. One of them is kept: the quickest, then the
first device and versions by the alphabet, then the first figures. Every other row is compared with the one
that is kept, once all folders are read, so that the order in which folders are named decides nothing. As in
`Store.frame`, the first of several rows within a folder counts.

Only a short record of every row is held in memory; shards are read one at a time.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from headcount.errors import StorageError
from headcount.results.agreement import CIRCUMSTANCES, FIXED, RESULTS, Figures, differing, differing_figures
from headcount.results.shards import Unusable, read_shard
from headcount.results.store import Store
from headcount.validation import shown

Report = Callable[[str], object]


@dataclass(frozen=True)
class Shard:
    """A file of rows, and the folder that the user named."""

    folder: Path
    path: Path


@dataclass(frozen=True, slots=True)
class Record:
    """One row as the survey remembers it: a hash of what must be equal, and what may differ a little."""

    fixed: bytes
    figures: Figures | None
    circumstances: tuple[float, str, str]

    @property
    def place(self) -> tuple[tuple[float, str, str], str]:
        """The smallest is kept. As text, since NaN has no place among numbers."""
        return self.circumstances, repr(self.figures)

    def agrees_with(self, other: "Record") -> bool:
        """Whether both may be rows of the same trial."""
        if self.fixed != other.fixed or self.figures is None or other.figures is None:
            return self.fixed == other.fixed
        return self.figures == other.figures or not differing_figures(self.figures, other.figures)


@dataclass(slots=True)
class Found:
    """A trial: the row of it that is kept, all folders that hold it, and all other rows."""

    kept: Record
    shard: Shard
    folders: list[Path]
    others: list[tuple[Record, Shard]] = field(default_factory=list)

    def add(self, record: Record, shard: Shard) -> None:
        """Take note of another row; it may be kept where it is the first of its folder."""
        if shard.folder not in self.folders:
            self.folders.append(shard.folder)
            if record.place < self.kept.place:
                record, shard, self.kept, self.shard = self.kept, self.shard, record, shard
        self.others.append((record, shard))

    @property
    def homes(self) -> set[Path]:
        """The folders that hold the row that is kept, or one that equals it."""
        alike = (shard.folder for record, shard in self.others if record.place == self.kept.place)
        return {self.shard.folder, *alike}


@dataclass(frozen=True)
class Conflict:
    """A trial with one result here and another there; both may be in one folder, or even in one file."""

    trial: str
    one: Shard
    other: Shard
    strict: bool = False

    @property
    def within(self) -> bool:
        """Whether it is a folder that contradicts itself."""
        return self.one.folder == self.other.folder

    def line(self) -> str:
        """The trial, the two places and what differs."""
        one, other, names = self._differing_rows()
        values = ", ".join(f"{name} ({shown(one[name])} and {shown(other[name])})" for name in names)
        point = "{task}, h = {heads}, T = {length}, seed {seed}".format_map(one)
        return f"trial {self.trial} ({point}): {self._places()} differ in {values}"

    def _places(self) -> str:
        if self.one == self.other:
            return f"two rows of {self.one.path}"
        if self.within:
            return f"{self.one.path} and {self.other.path}"
        return f"{self.one.folder} and {self.other.folder}"

    def _differing_rows(self) -> tuple[dict[str, object], dict[str, object], list[str]]:
        """The first rows of the trial, here and there, that disagree, and in which columns."""
        here, there = (_rows(shard.path, self.trial) for shard in (self.one, self.other))
        for one in here:
            for other in there:
                if names := differing(one, other, strict=self.strict):
                    return one, other, names
        raise StorageError(f"{self.one.path}: changed while it was read; run the same command again")


@dataclass
class Survey:
    """All trials of some folders. With `strict`, rows agree when their results do to the last digit."""

    strict: bool = False
    trials: dict[str, Found] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    members: dict[Path, int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, folders: Sequence[Path], report: Report = lambda _: None, *, strict: bool = False
    ) -> "Survey":
        """Look through every folder, shard by shard."""
        survey = cls(strict)
        for folder in folders:
            report(f"reading {folder}")
            survey.add(folder)
        return survey

    def add(self, folder: Path) -> None:
        """Take note of a folder."""
        own: set[str] = set()
        for path in shard_paths(Store(folder)):
            read, shard = read_shard(path), Shard(folder, path)
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
        if not store.folder.exists():
            raise StorageError(f"{store.folder}: no such folder; `headcount sweep` makes one")
        if not store.shards.is_dir():
            raise StorageError(f"{store.folder}: not a results folder: it holds no folder named shards")
        return sorted(path for path in store.shards.iterdir() if path.suffix == ".parquet")
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{store.folder}: cannot be read: {error.strerror}") from error


def records(rows: pa.Table, *, strict: bool) -> Iterator[tuple[str, Record]]:
    """Every row of a shard by its trial, as short as can be."""
    for some in rows.to_batches(max_chunksize=1_024):
        fixed, figures, circumstances = (
            zip(*(some[name].to_pylist() for name in names), strict=True)
            for names in (RESULTS if strict else FIXED, Figures._fields, CIRCUMSTANCES)
        )
        trials = some["trial"].to_pylist()
        for trial, equal, close, (seconds, *where) in zip(trials, fixed, figures, circumstances, strict=True):
            # As text, a number is exact and NaN equals NaN.
            digest = hashlib.blake2b(repr(equal).encode(), digest_size=16).digest()
            device, versions = map(sys.intern, where)  # held once, however many rows have them
            yield trial, Record(digest, None if strict else Figures(*close), (seconds, device, versions))


def _rows(shard: Path, trial: str) -> list[dict[str, object]]:
    read = read_shard(shard)
    if isinstance(read, Unusable):
        return []
    places = [place for place, other in enumerate(read["trial"].to_pylist()) if other == trial]
    rows: list[dict[str, object]] = read.take(pa.array(places, pa.int64())).to_pylist()
    return rows
