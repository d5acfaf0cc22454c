"""Where results live: a folder of Parquet shards and the packs under way.

    DIR/shards/<pack>.parquet       finished trials, a row each
    DIR/checkpoints/<pack>.npz      a pack under way, as of its last chunk
    DIR/models/<trial>.npz          the best state of a member, where a run was asked to keep it
    DIR/estimate.json               what `headcount estimate` concludes from them
    DIR/reproduced/<item>.html      what `headcount reproduce` made of them, with .svg and .parquet
    DIR/collisions/<cell>.json      what `headcount collide` found for the best member of a cell

Rows are keyed by the hash of the trial, so `headcount merge` can join folders of several machines. A file
that cannot be used is named in `problems`, and the rest is used all the same.
"""

import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import jax
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from headcount.engine.trainers import trainer_of
from headcount.errors import StorageError
from headcount.results.files import TEMPORARY, remove_leftovers, write_whole
from headcount.results.schema import SCHEMA, as_now, table
from headcount.trials.outcome import Outcome
from headcount.trials.pack import Pack
from headcount.trials.row import ORDER, Row
from headcount.trials.trial import Trial

DAMAGED = ".damaged"


def read_results(folder: Path | str) -> pd.DataFrame:
    """The results frame of a folder: every finished trial once. Damaged and foreign files are left out."""
    return Store(Path(folder)).frame()


class Store:
    """A results folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shards = folder / "shards"
        self.checkpoints = folder / "checkpoints"
        self.models = folder / "models"
        self.page = folder / "report.html"
        self.estimate = folder / "estimate.json"
        self.reproduced = folder / "reproduced"
        self.collisions, self.collisions_page = folder / "collisions", folder / "collisions.html"
        self.problems: list[str] = []

    def prepare(self, *, models: bool = False) -> dict[str, float]:
        """Make the folder ready to be written to; returns the finished trials and their validation errors.

        A damaged shard is set aside, so that its trials are trained anew.
        """
        for folder in (self.shards, self.checkpoints, *((self.models,) if models else ())):
            probe = folder / f"probe{TEMPORARY}"
            write_whole(probe, lambda file: file.write(b"headcount"))
            probe.unlink(missing_ok=True)
        for folder in (self.folder, self.shards, self.checkpoints, self.models):
            remove_leftovers(folder)
        tables, unusable = self._scan()
        for file in unusable:
            if file.damaged:
                file.path.rename(file.path.with_name(file.path.name + DAMAGED))
        self.problems += [file.line(set_aside=True) for file in unusable]
        for shard in self.shards.glob("*.parquet"):
            # Its pack was finished, and the run killed before it could tidy up.
            (self.checkpoints / f"{shard.stem}.npz").unlink(missing_ok=True)
        columns = ("trial", "validation_error")
        return {
            trial: error
            for shard in tables
            for trial, error in zip(*(shard[column].to_pylist() for column in columns), strict=True)
        }

    def frame(self) -> pd.DataFrame:
        """Every finished trial once, in an order that does not depend on when it was finished."""
        try:
            is_folder = stat.S_ISDIR(self.folder.stat().st_mode)
        except FileNotFoundError as error:
            raise StorageError(f"{self.folder}: no such folder; `headcount sweep` makes one") from error
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot be read: {error.strerror}") from error
        if not is_folder:
            raise StorageError(f"{self.folder}: is a file; a results folder is needed")
        tables, unusable = self._scan()
        self.problems += [file.line(set_aside=False) for file in unusable]
        rows: pd.DataFrame = pa.concat_tables([SCHEMA.empty_table(), *tables]).to_pandas()
        return rows.drop_duplicates("trial").sort_values(ORDER, ignore_index=True)

    def write(self, pack: Pack, rows: list[Row]) -> None:
        """Keep the rows of a finished pack, and forget that it was under way."""
        free = self.shards / f"{pack.id}.parquet"
        while free.exists():  # another version's, or foreign: never written over
            free = free.with_name(f"{free.stem}-more.parquet")
        write_whole(free, lambda file: pq.write_table(table(rows), file, write_page_checksum=True))
        self._checkpoint(pack).unlink(missing_ok=True)

    def save(self, pack: Pack, state: Any, *, seconds: float) -> None:
        """Keep a pack under way as of now."""
        arrays: dict[str, Any] = {f"leaf_{place}": leaf for place, leaf in enumerate(jax.tree.leaves(state))}
        write_whole(self._checkpoint(pack), lambda file: np.savez(file, seconds=seconds, **arrays))

    def load(self, pack: Pack) -> tuple[Any, float] | None:
        """The pack as of its last chunk, with the seconds spent on it; None when it never began."""
        path = self._checkpoint(pack)
        if not path.exists():
            return None
        template, structure = jax.tree.flatten(trainer_of(pack.trials[0]).start(pack))
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
                leaves = [saved[f"leaf_{place}"] for place in range(len(template))]
                seconds = float(saved["seconds"])
        except Exception:  # there is no end to what a damaged archive can make its reader say
            leaves, seconds = [], 0.0
        if [(leaf.shape, leaf.dtype) for leaf in leaves] != [(leaf.shape, leaf.dtype) for leaf in template]:
            path.rename(path.with_name(path.name + DAMAGED))
            self.problems.append(f"{path}: damaged, set aside; its pack starts again")
            return None
        return jax.tree.unflatten(structure, leaves), seconds

    def keep(self, trial: Trial, outcome: Outcome) -> None:
        """Keep the weights of a member, and what it puts out for the test samples."""
        write_whole(self._model(trial), lambda file: write_model(outcome, file))

    def keep_file(self, trial: Trial, content: bytes) -> None:
        """Keep what `write_model` wrote elsewhere."""
        write_whole(self._model(trial), lambda file: file.write(content))

    def model(self, trial: Trial) -> Any | None:
        """The member with its weights, where they were kept and can be read."""
        template, structure = jax.tree.flatten(trainer_of(trial).blank(trial))
        try:
            with self._model(trial).open("rb") as file, np.load(file, allow_pickle=False) as saved:
                leaves = [saved[f"leaf_{place}"] for place in range(len(template))]
        except Exception:  # as in `load`
            return None
        if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in template]:
            return None
        return jax.tree.unflatten(structure, leaves)

    def test_outputs(self, trial: Trial) -> Float[np.ndarray, "sample output"] | None:
        """A member's outputs for the test samples, where they were kept and can be read."""
        return self._outputs(trial, "test_outputs")

    def train_outputs(self, trial: Trial) -> Float[np.ndarray, "sample output"] | None:
        """Outputs for training samples, of a member without a test split; 0.1.0 kept them as the test's."""
        return self._outputs(trial, "train_outputs", "test_outputs")

    def _outputs(self, trial: Trial, *names: str) -> Float[np.ndarray, "sample output"] | None:
        try:
            with self._model(trial).open("rb") as file, np.load(file, allow_pickle=False) as saved:
                return np.asarray(saved[next(name for name in names if name in saved)])
        except Exception:  # as in `load`
            return None

    def has_kept(self, trial: Trial) -> bool:
        """Whether a member's weights and outputs can be read; a polished one keeps no outputs."""
        polished = bool(trial.training.polish_steps)
        return self.model(trial) is not None and (polished or self.train_outputs(trial) is not None)

    def _model(self, trial: Trial) -> Path:
        return self.models / f"{trial.id}.npz"

    def _checkpoint(self, pack: Pack) -> Path:
        return self.checkpoints / f"{pack.id}.npz"

    def _scan(self) -> tuple[list[pa.Table], list["Unusable"]]:
        """Every shard that can be read, and every file that does not belong or cannot be read."""
        known = {self.shards, self.checkpoints, self.models, self.page, self.estimate}
        known |= {self.reproduced, self.collisions, self.collisions_page}
        foreign = [
            Unusable(path, "not a file of headcount's", damaged=False)
            for path in sorted([*self.folder.glob("*"), *self.shards.glob("*")])
            if path not in known and path.suffix not in (TEMPORARY, DAMAGED)
            if not (path.parent == self.shards and path.suffix == ".parquet")
        ]
        read = [read_shard(path) for path in sorted(self.shards.glob("*.parquet"))]
        tables = [shard for shard in read if isinstance(shard, pa.Table)]
        return tables, foreign + [shard for shard in read if isinstance(shard, Unusable)]


def write_model(outcome: Outcome, file: BinaryIO) -> None:
    """The weights of a member, and what it puts out for the test samples, as one archive."""
    leaves = jax.tree.leaves(outcome.model)
    arrays: dict[str, Any] = {f"leaf_{place}": leaf for place, leaf in enumerate(leaves)}
    if outcome.outputs is not None:
        arrays[f"{outcome.outputs_of}_outputs"] = outcome.outputs
    np.savez(file, **arrays)


@dataclass(frozen=True)
class Unusable:
    """A file in a results folder that holds no results, and why."""

    path: Path
    reason: str
    damaged: bool

    def line(self, *, set_aside: bool) -> str:
        """What a person is told."""
        if not self.damaged:
            return f"{self.path}: {self.reason}, left alone"
        fate = "set aside, its trials are trained again" if set_aside else "left out"
        return f"{self.path}: damaged ({self.reason}), {fate}"


def read_shard(path: Path) -> pa.Table | Unusable:
    """The rows of one shard, or why it has none to give."""
    if not path.is_file():
        return Unusable(path, "not a file of headcount's", damaged=False)
    try:
        with path.open("rb") as file:
            shard = pq.read_table(file, page_checksum_verification=True)
    except Exception as error:  # as above
        reason = "empty" if path.stat().st_size == 0 else str(error).partition("\n")[0].partition(". ")[0]
        return Unusable(path, reason, damaged=True)
    shard = as_now(shard)
    if not shard.schema.equals(SCHEMA):
        return Unusable(path, "Parquet, but not a shard of headcount's", damaged=False)
    if any(column.null_count for column in shard.columns):
        return Unusable(path, "values are missing", damaged=True)
    return shard
